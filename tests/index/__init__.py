"""Tests of the structures; ``index_*`` modules are what several of them use."""
