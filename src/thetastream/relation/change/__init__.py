"""Changes of a relation.

``transaction`` collects them (``input`` reads their rows, ``counts`` says what they did),
``update`` applies them to leaves, ``free_blocks`` finds room, and ``fold`` moves the journal into
the blocks; ``difference`` compares two states. Imports ``files`` and the rooms below it.
"""
