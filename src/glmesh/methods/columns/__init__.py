"""Exact sums for nodes that hold columns, as few as possible: every sum widens the space that the next step is from."""
