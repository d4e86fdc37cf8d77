"""The process of a site, a type per phase: `Meeting.run` -> `Agreed.prepare` -> `Training.run` -> `TrainingOutcome`.

What a phase needs, the phase before has made: no attribute waits for a later phase. Sockets and bytes belong to
`wire`, mathematics to the packages that the simulator uses too.
"""
