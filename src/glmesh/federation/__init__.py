"""Nodes as processes of their own, between machines: gRPC with mutual TLS, one stream per link, no coordinator.

`keys` and `federation` say who takes part; `frames` is what crosses a link, `link` carries it; `exchange` hands a
block its neighbours' mail; `node` is the process.
"""
