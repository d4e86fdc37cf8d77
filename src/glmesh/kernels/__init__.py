"""Compiled kernels: arrays and integers in, arrays out.

Every kernel is a loop around a one-node function, so that a node computes the same bits however nodes are grouped:
no `fastmath`, neighbours are summed in ascending order of their ids, and randomness is a hash of (seed, node, round).
Loop indices are unsigned: numba would otherwise test each one for wrap-around, which costs a factor of two.
"""
