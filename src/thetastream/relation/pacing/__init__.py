"""When to start a phase.

``popularity`` samples which leaves are asked for, ``tuning`` sets the thresholds, ``deadlines``
predicts how long a phase takes, ``latency`` records how long rows waited. Imports nothing of the
other rooms.
"""
