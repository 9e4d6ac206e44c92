"""``thetastream bench keys``: what the keys of real tables cost, beside an int64 key.

``tables`` generates the rows, ``trials`` builds, updates and joins relations of them and checks the
answers, ``course`` runs the trials and keeps the result file, ``report`` makes the table.
"""
