"""How good is the present state: proven bounds that nodes compute, and measures of all nodes at once.

`bound` has the proof and the certificates of a reliable network, `unreliable` those of a network that fails, `spectral`
the gaps they rest on; `measures` needs all vectors at once and serves simulations. Methods may not enter: certificates
read a state and attend its exchanges, and never write to it (but for `Screening`, which saves work).
"""
