"""Exact sums for nodes that hold columns, as few as possible: every sum widens the space that the next step is from.

For sites with real data, where a sum tells something of rows; what adds sums up is not known here.
"""
