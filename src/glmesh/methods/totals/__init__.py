"""Methods of nodes that hold rows and all hold the same coefficients w, which they compute from exact totals.

A round is one `Total`: every node contributes sums over its own rows at w, all are sent the same bits, and all compute
the same next w. Gossip, estimates that differ from node to node and dual variables do not enter here.
"""
