"""Loops of the tuple-by-tuple join: by one thread (``ibwj``) and by several (``crew``)."""
