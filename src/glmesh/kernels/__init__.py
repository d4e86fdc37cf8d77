"""Kernels compiled by numba: arrays, numbers and tuples of them in, arrays out.

Every kernel is a loop over nodes, so a node computes the same bits however nodes are grouped: no `fastmath`, neighbours
are summed in ascending order of their ids, and randomness is a hash of (seed, node, round). Classes, files and messages
may not enter. `glmesh.kernels.jit` says how kernels are compiled, `glmesh.kernels.warm` compiles them ahead of time.
"""
