"""Benchmarks: the workloads, thetastream and its peers side by side, every answer verified."""
