"""PanJoin: a window cut by arrival into subwindows, which only take rows and are dropped whole.

``chain`` is the window, ``procedure`` its workers and their commands, ``part`` and ``subwindow`` a
piece. Inside a piece is ``bi_sorted``, ``partitioned``, ``wide_tree`` or ``scanned``. The
registered structures ``bi_sort``, ``llat``, ``rap_table``, ``wib_tree`` and ``bi_sort_opencl`` fix
which one; ``subwindows`` chooses for each piece, by ``rule``. The family uses kernels of ``runs``
and ``trees``.
"""
