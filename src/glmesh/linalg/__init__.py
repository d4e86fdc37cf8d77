"""Linear algebra with matrices that are stored by columns: products, norms, checks of what a user hands in.

Nodes, losses and penalties may not enter.
"""
