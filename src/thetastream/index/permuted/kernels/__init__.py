"""Loops of SPO-Join: permutations, offsets, probes and sweeps; sets of rows per term."""
