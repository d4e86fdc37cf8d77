"""The page about sites, live or frozen: words, charts as SVG and tables, from the files of state folders.

The server stays out, and so do matplotlib and anything that a browser would have to fetch.
"""
