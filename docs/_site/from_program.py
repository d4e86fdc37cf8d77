"""Directives whose content is the program itself, so that the reference cannot fall behind it.

`glmesh-commands`, `glmesh-exit-codes`, `glmesh-errors` and `glmesh-pairs` take no argument; `glmesh-docstring` shows
the docstring of the module that it names, without its first paragraph.
"""

import argparse
import importlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from glmesh import GlmeshError, Problem, Run, errors, functions
from glmesh.cli.app import COMMANDS
from glmesh.cli.options import EXIT_CODES, Parser


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("glmesh-commands", Commands)
    app.add_directive("glmesh-exit-codes", ExitCodes)
    app.add_directive("glmesh-errors", Errors)
    app.add_directive("glmesh-pairs", Pairs)
    app.add_directive("glmesh-docstring", Docstring)
    return {"parallel_read_safe": True}


# column of the tables of pairs -> options of `Problem.glm`, for six features
PENALTIES = {
    "none": {"alpha": 0.0},
    "L2": {"penalty": "l2"},
    "elastic net": {"penalty": "elasticnet"},
    "L1": {"penalty": "l1"},
    "L2 and w >= 0": {"penalty": functions.L2(1.0, lo=0.0)},
    "group Lasso": {"penalty": functions.GroupLasso(np.arange(6) // 2)},
}


class Commands(Directive):
    """A section for each command: what it does, its usage, arguments and options, and examples."""

    def run(self) -> list[nodes.Node]:
        """Return the sections in the order of `glmesh --help`."""
        sections = []
        for name, command in COMMANDS.items():
            parser = Parser(prog=f"glmesh {name}")
            command.add_options(parser)
            sections.append(_command(parser, command.HELP))
        return list(sections)


class ExitCodes(Directive):
    """The table of exit codes."""

    def run(self) -> list[nodes.Node]:
        """Return the table of `glmesh.cli.options.EXIT_CODES`."""
        return [_table(["exit code", "means"], [[str(code), said] for code, said in EXIT_CODES.items()])]


class Errors(Directive):
    """The errors that glmesh raises on purpose: what each is derived from, and what it means."""

    def run(self) -> list[nodes.Node]:
        """Return the table of the classes of `glmesh.errors`, those above others first."""
        kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and kind.__module__ == errors.__name__]
        lines = []
        for kind in kinds:
            above = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
            summary = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
            lines.append([f"`{kind.__name__}`", above, " ".join(summary.split())])
        return [_table(["class", "derived from", "means"], lines)]


class Pairs(Directive):
    """Two tables, split by samples and by features: what each loss or family can be fitted with."""

    def run(self) -> list[nodes.Node]:
        """Return the tables; each cell was found by making the problem and asking what the default method is."""
        kinds = [("loss", name) for name in functions.LOSSES] + [("family", name) for name in functions.FAMILIES]
        found: list[nodes.Node] = []
        for split in ("samples", "features"):
            lines = [
                [f"`{name}`", *(_default_method({kind: name, **penalty}, split) for penalty in PENALTIES.values())]
                for kind, name in kinds
            ]
            lines = [line for line in lines if set(line[1:]) != {"–"}]
            found += [
                nodes.paragraph("", "", nodes.strong(text=f"Split by {split}")),
                _table(["loss or family", *PENALTIES], lines),
            ]
        return found


class Docstring(Directive):
    """The docstring of a module whose text is an example file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the docstring below its first paragraph, as TOML."""
        text = inspect.getdoc(importlib.import_module(self.arguments[0])) or ""
        block = nodes.literal_block(text=text.split("\n\n", 1)[1])
        block["language"] = "toml"
        return [block]


def _default_method(options: dict[str, Any], split: str) -> str:
    """Return what fits six features of sixty rows with these options of `Problem.glm`, or "–" if nothing does."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    positive = X[:, 0] + rng.normal(size=60) > 0
    for y in (np.where(positive, 1.0, -1.0), positive * 1.0, 0.5 + positive):
        try:
            with Run(Problem.glm(X, y, split=split, **options), n_nodes=4) as run:
                return str(run.story[0][1]).capitalize()
        except errors.UnsuitablePair:
            return "–"
        except errors.InvalidData as error:  # other targets may do
            refused: GlmeshError = error
    raise refused


def _command(parser: argparse.ArgumentParser, summary: str) -> nodes.section:
    """Return the section of a command, with a section for each of its own commands."""
    section = nodes.section(ids=[nodes.make_id(parser.prog)], names=[parser.prog])
    section += nodes.title(text=parser.prog)
    section += nodes.paragraph(text=summary[0].upper() + summary[1:] + ".")
    for part in (parser.description or "").split("\n\n"):
        section += _text(part) if part else []
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    section += _block(_wrapped(usage))
    own = []
    for group in parser._action_groups:
        described = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        own += [choice for action in described if isinstance(action, argparse._SubParsersAction) for choice in [action]]
        options = [
            action for action in described if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
        ]
        if options:
            if group.title not in ("options", "positional arguments"):
                section += nodes.rubric(text=(group.title or "").capitalize())
            section += _options(parser, options)
    if parser.epilog:
        section += _block(parser.epilog)
    for choices in own:
        said = {action.dest: action.help or "" for action in choices._choices_actions}
        for name, step in choices.choices.items():
            section += _command(step, said.get(name, ""))
    return section


def _options(parser: argparse.ArgumentParser, options: Iterable[argparse.Action]) -> nodes.definition_list:
    """Return the arguments and options of a command with what `--help` says of each."""
    formatter = parser._get_formatter()
    listed = nodes.definition_list(classes=["glmesh-options"])
    for action in options:
        term = nodes.term("", "", nodes.literal(text=formatter._format_action_invocation(action)))
        said = formatter._expand_help(action) if action.help else ""
        listed += nodes.definition_list_item("", term, nodes.definition("", *_text(said or "–")))
    return listed


def _text(text: str) -> list[nodes.Node]:
    """Return a paragraph, or a block if the lines of the text mean something; `code` stands between backquotes."""
    if "\n" in text.strip():
        return [_block(text)]
    paragraph = nodes.paragraph()
    for number, part in enumerate(text.split("`")):
        if part:
            paragraph += nodes.literal(text=part) if number % 2 else nodes.Text(part)
    return [paragraph]


def _block(text: str) -> nodes.literal_block:
    """Return a block of text as it is."""
    block = nodes.literal_block(text=text)
    block["language"] = "none"
    return block


def _wrapped(usage: str, width: int = 88) -> str:
    """Return a usage in lines of at most `width` letters where its words allow, those after the first indented."""
    lines, words = [""], usage.replace(" [", "\0[").replace(" (", "\0(").split("\0")
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("    " + word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip() if len(lines) == 1 else f"{lines[-1]} {word}"
    return "\n".join(lines)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> nodes.table:
    """Return a table of texts; `code` stands between backquotes."""
    table = nodes.table(classes=["table"])
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *(_row(line) for line in lines))
    table += group
    return table


def _row(cells: Sequence[str]) -> nodes.row:
    """Return a row of a table."""
    return nodes.row("", *(nodes.entry("", *_text(cell)) for cell in cells))
