"""Files that a site has before it starts: federation file, node file, certificates.

What is read here is checked here, and an error names the file and the key. No sockets, no data, no training.
"""
