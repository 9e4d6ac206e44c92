"""Options of joins, indexes and tables: checked when the object is made.

``checks`` reads an option or raises ``OptionError``. The room imports ``errors`` only.
"""
