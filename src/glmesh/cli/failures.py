"""`train` when things fail: the fault plan, the folder of the checkpoint, and what to tell afterwards."""

from argparse import Namespace
from pathlib import Path

import networkx as nx

from glmesh.cli.output import count
from glmesh.engine import checkpoint
from glmesh.engine.result import Result
from glmesh.errors import InvalidInput
from glmesh.network import Plan

CHECKPOINT = "run.ckpt"  # file in the folder of --checkpoint
EVERY = 100  # [rounds] between two checkpoints
_LISTED = 12  # [events] told one by one
_EVENTS = {
    "join": "node {} joined",
    "leave": "node {} left, and its variables with it",
    "freeze": "node {} left; its variables stay frozen",
}


def read_plan(options: Namespace, graph: nx.Graph) -> Plan | None:
    """Return the fault plan of --faults, None without one; raise InvalidInput if it does not fit the network."""
    if options.faults is None:
        return None
    plan = Plan.of(options.faults)
    try:
        plan.check(options.nodes, graph.edges())
    except InvalidInput as error:
        raise InvalidInput(f"{options.faults}: {error}") from None
    if any(entry.delay for entry in plan.straggler) and options.latency is None and options.bandwidth is None:
        raise InvalidInput(
            f"{options.faults}: a straggler's delay needs a clock; give --latency or --bandwidth, or the straggler a "
            "theta instead"
        )
    return plan


def plan_text(plan: Plan | None) -> str:
    """Return a line of text that says until which round nodes, links or messages fail; empty without a fault plan."""
    if plan is None:
        return ""
    end = plan.quiet_from()
    return "  things fail, for ever\n" if end is None else f"  things fail until round {end:,}\n"


def checkpoint_output(options: Namespace) -> str | None:
    """Return the path that the option --checkpoint will write to first, None without the option.

    It is the folder that the option names or, if the folder exists, the checkpoint file in it.
    """
    if options.checkpoint is None:
        if options.checkpoint_every is not None:
            raise InvalidInput("--checkpoint-every goes with --checkpoint DIR, which says where to")
        return None
    folder = Path(options.checkpoint)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"--checkpoint {folder}: is not a folder; give the name of one, it is made if missing")
    return str(folder / CHECKPOINT if folder.is_dir() else folder)


def rounds_done(options: Namespace) -> int | None:
    """Return the rounds made in the checkpoint file of --checkpoint; None without the option or the file.

    UnreadableFile is raised if the file is damaged.
    """
    if options.checkpoint is None:
        return None
    path = Path(options.checkpoint, CHECKPOINT)
    return int(checkpoint.read(path)["state"]["rounds"]) if path.exists() else None


def checkpoint_text(options: Namespace, done: int | None) -> str:
    """Return a line on where the run is saved and, if it goes on from a checkpoint, a line on the round reached."""
    path, every = Path(options.checkpoint, CHECKPOINT), options.checkpoint_every or EVERY
    anew = ", with any number of ranks" if options.runtime == "mpi" else ""
    saved = f"Every {every:,} rounds the run is saved in {path}; if it is cut off, the same command goes on there{anew}"
    return saved if done is None else f"{saved}\nGoing on from round {done:,}"


def make_checkpoint(options: Namespace) -> Path | None:
    """Make the folder of --checkpoint; return the path of the checkpoint file in it, None without the option."""
    if options.checkpoint is None:
        return None
    folder = Path(options.checkpoint)
    folder.mkdir(exist_ok=True)
    return folder / CHECKPOINT


def told(result: Result) -> list[tuple[str, str]]:
    """Return pairs (name, text) for the summary of `train`: members, absences, events, skipped subproblems.

    The list is empty for a run without any of them.
    """
    lines = []
    presence = result.presence
    if presence.size and (presence == 0).any():
        lines.append(("members", f"{int((presence[-1] > 0).sum()):,} of {count(presence.shape[1], 'node')} at the end"))
    if (presence == 0.5).any():
        away = (presence == 0.5).sum() / (presence > 0).sum()
        lines.append(("away", f"{100 * away:.1f} % of the members' rounds"))
    events = [f"round {event.round:,}: {_EVENTS[event.kind].format(event.node)}" for event in result.events]
    if len(events) > _LISTED:
        events[_LISTED - 1 :] = [f"and {len(events) - _LISTED + 1:,} more"]
    lines += [("" if number else "events", event) for number, event in enumerate(events)]
    plan = Plan.of(result.faults)
    later = [(entry.round, "join", entry.node) for entry in plan.join if entry.round >= result.rounds]
    later += [(entry.round, "leave", entry.node) for entry in plan.leave if entry.round >= result.rounds]
    if later:
        round, verb, node = min(later)
        lines.append(("not seen", f"node {node} was to {verb} in round {round:,}; --stop rounds goes on to the end"))
    if result.skipped:
        lines.append(("skipped", f"{count(result.skipped, 'subproblem')} of nodes whose part was done"))
    return lines
