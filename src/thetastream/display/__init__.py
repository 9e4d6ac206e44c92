"""How objects show themselves: as a short table of facts, in a terminal and in a notebook.

``facts`` renders such tables as text and as HTML. The room imports nothing.
"""
