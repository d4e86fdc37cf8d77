"""Gossip: how the nodes' estimates v_k of Ax are mixed with those of their neighbours, so that their mean stays Ax.

Plain averaging (`averaging`) and push-flow gossip, which survives lost messages (`flows`, one state machine per link in
`edge`), satisfy one protocol (`base`). A gossip knows blocks and messages; local solvers, momentum and certificates do
not enter.
"""
