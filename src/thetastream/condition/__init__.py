"""What a match is: the text of a condition, or expressions built in Python, as terms and residuals.

``expression`` is the tree both become, ``sql`` parses text, ``term`` is one indexable comparison,
``normalize`` turns conditions into terms, ``predicate`` is the whole. The room imports the
vocabulary and sqlglot; it knows neither columns nor data.
"""
