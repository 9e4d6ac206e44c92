"""The layout of rows in a leaf.

``layout`` is the format, ``directory`` its table of columns; ``packing`` writes rows and
``gathering`` reads them; ``columns``, ``nesting`` and ``codec`` define how each Arrow type is
stored, ``domains`` converts intervals of keys to stored keys.
"""
