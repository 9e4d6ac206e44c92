"""What a match is: SQL text, or expressions built in Python, as terms and residuals.

``expression`` is the tree that both become, ``sql`` parses text, ``term`` is one comparison that an
index can serve, ``normalize`` turns conditions into terms, ``predicate`` holds all parts.
``functions`` is the table of functions and ``meaning`` what they mean, ``times`` reads dates,
``custom`` is a function of the user's own, ``advice`` says how to write what no index serves. The
room imports the vocabulary and sqlglot; it knows neither columns nor data.
"""
