"""Consensus methods, CoLA's rivals: every node holds samples and a copy of all coefficients.

`replicas` is what they run on, `base` what they share, one file for each; `nids` is a whole method in 50 lines.
Nothing of CoLA may enter: the two kinds of methods meet in `core/protocols` alone.
"""
