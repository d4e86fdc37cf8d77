"""Parsing of options, and the exit codes. Needs the standard library alone."""

import argparse
import math
from collections.abc import Callable
from typing import Any, NoReturn

from glmesh.errors import InvalidInput

REACHED, USAGE, OUT_OF_ROUNDS, PARTIAL, INTERRUPTED = 0, 2, 3, 4, 130  # exit codes
EXIT_CODES = {  # what they mean, in all commands
    REACHED: "done, as asked for",
    USAGE: "options, data, files or a site are wrong; one line says what",
    OUT_OF_ROUNDS: "out of rounds, or left behind, before the tolerance was reached",
    PARTIAL: "done, or ended, without the data of some site; the last line says whose",
    INTERRUPTED: "interrupted or paused",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidInput for its errors and keeps the line breaks of its texts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **options)

    def describe(self, text: str, *lines: str, after: str = "", usage: str | None = None) -> None:
        """Set the help: `text` above the options; below them `lines`, example commands, and the text `after`.

        `usage` replaces the line that argparse would make.
        """
        self.description, self.epilog, self.usage = text, examples(*lines, after=after), usage

    def add_text_options(self) -> None:
        """Add --header, --encoding and --index-base, which say how a data file of text is read."""
        names = "whether a .csv or .tsv begins with the names of its columns (default auto: if that line holds text)"
        self.add_argument("--header", choices=("auto", "yes", "no"), default="auto", help=names)
        encoding = "encoding of a .csv or .tsv: utf-8 (default), latin-1, utf-16, ..."
        self.add_argument("--encoding", default="utf-8", metavar="NAME", help=encoding)
        self.add_index_base("index of the first column of svmlight text (default auto: 1, or 0 if the file uses a 0)")

    def add_index_base(self, text: str) -> None:
        """Add --index-base with this help text; its value is "auto", 0 or 1."""
        self.add_argument("--index-base", choices=("auto", 0, 1), type=_index_base, default="auto", help=text)

    def error(self, message: str) -> NoReturn:
        """Raise InvalidInput with argparse's message and a hint at --help."""
        raise InvalidInput(f"{message} (`{self.prog} --help` explains)")


def changed(options: argparse.Namespace, **values: object) -> argparse.Namespace:
    """Return the options with other `values` of some of them, by name; the options that are given stay as they are."""
    return argparse.Namespace(**vars(options) | values)


def _index_base(text: str) -> str | int:
    """Return the value of --index-base: 0 or 1 as an int, any other text unchanged."""
    return int(text) if text in ("0", "1") else text


class _Help(argparse.HelpFormatter):
    """Formatter of help: wraps paragraphs of one line, keeps others as written, gives options a column that fits."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return a description or epilog, wrapped paragraph by paragraph to `width` columns."""
        return "\n\n".join(
            super(_Help, self)._fill_text(part, width, indent) if "\n" not in part else part
            for part in text.split("\n\n")
        )


def examples(*lines: str, after: str = "") -> str:
    """Return a text for the end of a help: a list of example commands, and the text `after` below them."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines), *(["", after] if after else [])])


def whole(least: int) -> Callable[[str], int]:
    """Return a function for argparse that turns text into a whole number >= `least`, or raises ArgumentTypeError."""

    def convert(text: str) -> int:
        """Return the whole number that `text` is; raise ArgumentTypeError if it is none, or less than `least`."""
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expected a whole number >= {least}, got {text!r}")
        return value

    return convert


def number(least: float = 0.0, most: float = math.inf, *, positive: bool = False) -> Callable[[str], float]:
    """Return a function for argparse that turns text into a finite number in [least, most], not 0 if `positive`."""
    bounds = "> 0" if positive else f">= {least:g}" if most == math.inf else f"between {least:g} and {most:g}"

    def convert(text: str) -> float:
        """Return the number that `text` is; raise ArgumentTypeError if it is none or out of the range."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and value < math.inf) or (positive and value == 0):
            raise argparse.ArgumentTypeError(f"expected a number {bounds}, got {text!r}")
        return value

    return convert


def add_network(parser: argparse._ActionsContainer) -> None:
    """Add --nodes (K, default 16) and --seed (default 0) to a parser."""
    parser.add_argument("--nodes", type=whole(1), default=16, metavar="K", help="number of nodes (default 16)")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="seed of all that is random (default 0)")
