"""What a partition keeps between micro-batches.

``record`` (what there is, and where), ``fingerprint`` (is it of this join?), ``state`` (writing
runs, flags, the record), ``opening`` (finding the engine: catching up, attaching, rebuilding),
``manifests`` (records in files alone), ``folder`` (files of a folder that all executors reach),
``cache`` (run files of the host, partitions alive in the process), ``digest`` (is a run what was
written?), ``checkpoint`` (what is there before a query starts).
"""
