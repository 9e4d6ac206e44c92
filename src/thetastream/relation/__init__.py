"""A table on disk, and a stream joined with it: ``Relation`` and ``RelationJoin`` (the SSIJ paper).

A ladder of rooms; each imports only those before it:

    disk     devices, clocks, what a read costs, read plans
    image    how rows lie in the image of a leaf
    files    fences, generations, the journal: a relation as a folder of files
    change   insert, update, delete, fold
    store    ``Relation``
    pacing   when to begin a phase: popularity of leaves, thresholds, deadlines
    join     ``RelationJoin``: cache, waiting rows, the two phases
"""
