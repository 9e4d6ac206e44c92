"""Windows at work: who waits, who meets whom, who leaves. One module per kind of window.

``base`` is the protocol, ``count`` serves count windows (by arrival, by rank, of a stream with
itself), ``time`` event time, ``session`` sessions, ``unbounded`` joins without a window. A window
names its class (``Window.lifetime``), which ``base`` loads on first use. The room imports
``stream``, ``query``, ``collector`` and ``outside`` of the engine, and what stands below them.
"""
