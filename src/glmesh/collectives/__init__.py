"""Totals at every node by messages to neighbours only: by flooding or along the spanning tree, for scalars and vectors.

A collective knows blocks and messages. What is added up, and why, stays with the methods and the certificates.
"""
