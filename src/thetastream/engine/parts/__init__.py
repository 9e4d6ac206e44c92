"""Parts of the output: what a push returns, produced as it is read.

``batches`` holds parts of rows and numbers, and iterates over them; ``records`` holds ranges.
"""
