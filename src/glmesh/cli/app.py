"""Finds the command and runs it; the one place where errors become a line and an exit code.

What `import glmesh` does not load already (federations, benchmarks, experiments), a command imports when it runs.
"""

import os
import sys
from collections.abc import Sequence

from glmesh import __version__
from glmesh.cli import (
    bench,
    cluster,
    demo,
    describe,
    doctor,
    federation,
    keys,
    node,
    paper,
    predict,
    report,
    show,
    status,
    topology,
    train,
    up,
)
from glmesh.cli.options import EXIT_CODES, INTERRUPTED, USAGE, Parser, examples
from glmesh.errors import GlmeshError

COMMANDS = {
    "demo": demo,
    "train": train,
    "predict": predict,
    "show": show,
    "describe": describe,
    "topology": topology,
    "bench": bench,
    "paper": paper,
    "keys": keys,
    "federation": federation,
    "doctor": doctor,
    "node": node,
    "up": up,
    "status": status,
    "report": report,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `glmesh` command with the arguments `argv` (None: those of the process); return its exit code.

    An error is printed as one line on stderr.
    """
    try:
        try:
            arguments = _parser().parse_args(argv)
            return int(COMMANDS[arguments.command].run(arguments))
        finally:
            sys.stdout.flush()  # so that a closed pipe shows here
    except SystemExit as end:  # --help and --version
        return int(end.code or 0)
    except KeyboardInterrupt:
        print("\nglmesh: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of `glmesh predict ... | head` left
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except GlmeshError as error:
        if list(sys.argv[1:] if argv is None else argv)[:1] == ["train"] and cluster.launched() > 1:
            return cluster.fail(error)  # the other ranks wait for this one
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except MemoryError as error:
        message = f"not enough memory ({error})"
    print("glmesh: error:", " ".join(message.split()), file=sys.stderr)
    return USAGE


def _parser() -> Parser:
    """Return the parser of the `glmesh` command, with a subparser for each entry of COMMANDS."""
    parser = Parser(
        prog="glmesh",
        description="Train generalised linear models over a network of nodes that each keep their own data, without a "
        "coordinator and with a proof of how good the answer is. `train` simulates the network on this machine; "
        "`node` is one site of a real one.",
        epilog=examples(
            "glmesh demo                                    see it work, in some seconds",
            "glmesh train data.svm --model lasso --alpha 5  fit a model and save it",
            "glmesh predict glmesh-model.npz new.svm        use it",
            "glmesh topology torus --nodes 64               look at a network before using it",
            "glmesh up federation.toml                      sites as processes, over TLS",
            after="exit codes:\n"
            + "\n".join(f"  {code:<4} {said}" for code, said in EXIT_CODES.items())
            + "\n\n`glmesh COMMAND --help` says more about each.",
        ),
    )
    parser.add_argument("--version", action="version", version=f"glmesh {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name, command in COMMANDS.items():
        command.add_options(commands.add_parser(name, help=command.HELP))
    return parser
