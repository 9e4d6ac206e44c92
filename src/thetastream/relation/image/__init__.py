"""The layout of rows in a leaf.

``layout`` is the format, ``directory`` its table of columns; ``packing`` writes rows and
``gathering`` reads them; ``columns``, ``nesting`` and ``codec`` define how each Arrow type is
stored, ``domains`` converts intervals of keys to stored keys.

``key`` names the columns of the key. Where its values do not fit into 64 bits, ``coding`` learns
their codes, and ``asking`` says which codes a stream row asks for; ``open_ends`` says what NULL
ends of intervals do.
"""
