"""What crosses a link and how: frames, messages, links, and the barrier that ends an exchange.

Bytes become checked records here. No message may be believed before it is checked, nothing is executed or unpickled,
and what messages mean for training is decided in `node`.
"""
