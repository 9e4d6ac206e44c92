"""What a partition keeps between micro-batches.

``state`` (runs, flags, the record), ``folder`` (runs as files beside the checkpoint), ``cache``
(run files of the host, partitions alive in the process), ``digest`` (is a run what was written?).
"""
