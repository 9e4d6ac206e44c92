"""Tests of the benchmarks; ``bench_*`` modules are what several of them use."""
