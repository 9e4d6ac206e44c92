"""``thetastream bench conditions``: what a condition costs beside a plain one with the same pairs.

``contests`` generates the rows and runs every contestant once, ``course`` lets them take turns in
one process, compares the digests of their pairs and writes the result file, ``report`` makes the
table of the page.
"""
