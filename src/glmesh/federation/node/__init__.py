"""The process of a site, a type per phase: `Meeting.run` -> `Agreed.prepare` -> `Training.run` -> `TrainingOutcome`.

Sites that make masked totals end with `Agreed.prepare_totals` -> `Totalling.run`: I/O around the state machine of
`totals`, which runs a method as a program (`SiteProgram`) behind the site's own rules (`RuleBook`).

What a phase needs, the phase before has made: no attribute waits for a later phase. Sockets and bytes belong to
`wire`, mathematics to the packages that the simulator uses too.
"""
