"""The network that nodes communicate over: who is linked to whom, with which weights, how fast, and what fails.

`topology` has the graphs, `mixing` the matrices that gossip with, `spectrum` their eigenvalues, `timing` the virtual
clock of a simulation, `faults` plans of what fails. Problems, methods and messages may not enter.
"""
