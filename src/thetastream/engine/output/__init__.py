"""What is returned for matches.

``batches`` gathers rows, ``records`` holds ranges and counts, ``answer`` knows where one key
column decides everything.
"""
