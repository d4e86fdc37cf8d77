"""What every method and every transport shares: the nodes of a block, messages, protocols, and how a state is saved.

No algorithm, no file and no socket enters here, and nothing of the packages above: a transport, a collective or a
gossip satisfies the protocols of this package without being imported by it.
"""
