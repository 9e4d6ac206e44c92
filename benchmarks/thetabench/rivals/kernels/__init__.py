"""Loops of MeshJoin and of a buffer pool."""
