"""What people and programs see of a node: log, history, live view, status port, report and doctor.

Everything here reads; nothing may change what a node does.
"""
