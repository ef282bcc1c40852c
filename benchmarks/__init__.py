"""Benchmarks: each goal measured beside a peer and a floor, in one run, in interleaved rounds.

python -m benchmarks          the short form, about two minutes on two cores
python -m benchmarks --full   a log of a million events, a hundred thousand items

Both write `benchmarks/results.md`. Numbers of two runs can't be compared, the ratios within one can.
"""
