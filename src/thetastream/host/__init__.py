"""What processes leave on their host for the next ones: folders and files of one user.

``private`` keeps them from other users. The room imports nothing of the library.
"""
