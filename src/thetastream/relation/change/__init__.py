"""Changes of a relation.

``transaction`` collects them, ``update`` applies them to leaves, ``free_blocks`` finds room,
``fold`` puts the journal into the blocks. Imports ``files`` and what is before it.
"""
