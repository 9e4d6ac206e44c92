"""Changes of a relation.

``transaction`` collects them, ``update`` applies them to leaves, ``free_blocks`` finds room, and
``fold`` moves the journal into the blocks. Imports ``files`` and the rooms below it.
"""
