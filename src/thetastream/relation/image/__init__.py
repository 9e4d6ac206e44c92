"""How rows lie in a leaf.

``layout`` is the whole, ``directory`` its table of columns, ``packing`` and ``gathering`` the ways
in and out; ``columns``, ``nesting`` and ``codec`` say how each Arrow type is stored, ``domains``
how intervals of keys meet stored ones.
"""
