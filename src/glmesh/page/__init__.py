"""A page about something that goes on, live or frozen: its document, charts as SVG, coefficients, and a small server.

What stands on the page about sites is in `federation/monitor/page`, about a run in `engine/live`. matplotlib stays out,
and so does anything that a browser would have to fetch.
"""
