"""Questions about one stream's window: ``WindowIndex``.

``window_index`` is the public class, ``clock`` knows which moments a question sees, ``parts``
holds the indexes. The room imports ``data`` and ``index``.
"""
