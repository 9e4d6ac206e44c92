"""A table on disk, and a stream joined with it: ``Relation`` and ``RelationJoin`` (the SSIJ paper).

Each room imports only those above it:

    disk     devices, clocks, costs of reads, read plans
    image    the layout of rows in a leaf
    files    fences, generations, the journal: a relation as a folder of files
    change   insert, update, delete, fold
    store    ``Relation``
    pacing   when to start a phase: popularity of leaves, thresholds, deadlines
    join     ``RelationJoin``: cache, waiting rows, the two phases
"""
