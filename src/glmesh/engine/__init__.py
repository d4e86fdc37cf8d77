"""The engine: from a problem and options to rounds, records and a result.

`setup` checks what was asked for and lets a method prepare its nodes, `driver` makes the rounds, `observe` records
them, `stopping` ends them, `solve` is the loop around it all; `run` is what a user holds. `membership` carries fault
plans out, `data_changes` and `path` change the problem in mid-run, `checkpoint` saves it, `scatter` deals data out to
processes.

No formula of a method may enter, and nothing that only one runtime has: what is CoLA's own is in `methods/cola`, and
what moves messages is in `transports`.
"""
