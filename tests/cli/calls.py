"""Calls of the command line in this process."""

from glmesh.cli import main

FAST = ["--nodes", "4", "--topology", "complete"]


def run(*arguments):
    return main([str(argument) for argument in arguments])


def fails(capsys, *arguments):
    """The one line that a refused command prints."""
    assert run(*arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("glmesh: error: ")
    assert shown.count("\n") == 1
    return shown
