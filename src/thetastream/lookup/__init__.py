"""Questions about one stream's window: ``WindowIndex``.

``window_index`` is the public class, ``clock`` decides which moments a question sees, ``parts``
holds the indexes. Imports ``data`` and ``index``.
"""
