"""Joins of two finite tables: ``ts.join``, ``ts.join_iter``, and the namespaces of frame libraries.

``join`` has the public functions; ``finite`` runs a join: it stores one side and streams the other
past it, as ``ways`` decides. ``reading`` cuts the streamed side into chunks, ``threads`` shares
chunks among threads in order, ``progress`` shows long work on a terminal, ``prepared`` stores one
side for a stream that goes on. ``polars_namespace`` and
``pandas_accessor`` register ``frame.theta``. The room imports the engine, and no edge.
"""
