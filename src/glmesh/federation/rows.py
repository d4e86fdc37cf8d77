"""Two sites compare the names of their rows, if both ask for it: where they part, or which names both have.

Nothing here runs by itself: each site names the other on its command line (`glmesh doctor --rows`, `--distinct`), both
at the same time. A site at which nobody does tells nothing.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from glmesh.contract import DataTable
from glmesh.contract.fitting import listed
from glmesh.core import Violation
from glmesh.errors import InvalidInput
from glmesh.federation.config import Federation, Site, difference
from glmesh.federation.monitor.log import node_log
from glmesh.federation.node.site_data import add_name, digest_key, read_site_table, row_hash
from glmesh.federation.wire import (
    DISTINCT,
    PREDICT,
    ROWS,
    TRAIN,
    Hello,
    JsonRecord,
    Kind,
    Message,
    PeerLinks,
    pack_json,
    unexpected,
    unpack_json,
)

_POLL = 0.2  # [s] longest sleep while waiting for messages
_LINGER = 10.0  # [s] that a site which knows all stays until the other has said the same
_DIGEST = 16  # [bytes] of the digest of one name
_PIECE = 1 << 16  # [names] whose digests go into one message: 1 MB
_MOST = 1 << 40  # [rows] that a site may say it has
_RUNS = {TRAIN: "trains", PREDICT: "predicts", ROWS: "runs `doctor --rows`", DISTINCT: "runs `doctor --distinct`"}


@dataclass(frozen=True)
class PrefixDigest(JsonRecord):
    """Message of the search for the first row that differs: the keyed digest of the names of the first `count` rows."""

    count: int  # how many first rows the digest is of
    digest: str  # keyed, 32 hexadecimal digits


@dataclass(frozen=True)
class Compared:
    """Result of a comparison of row names with another site, in words, and whether the rows are as they should be."""

    text: str  # for the people of this site; it may hold names of its own rows
    good: bool  # the rows are the same, or none is at both sites


class Comparison(Protocol):
    """One site's side of a comparison of row names: the messages it sends, and the result of those that come."""

    @property
    def done(self) -> bool:
        """Return whether no more messages of the other site are needed."""

    def begin(self, their_rows: int) -> list[bytes]:
        """Forget all that came; return the contents of the first messages to send to the other site.

        They are a list of bytes. `their_rows` is the number of rows of the other site.
        """

    def receive(self, content: bytes | bytearray) -> list[bytes]:
        """Take in the content of a message of the other site; return the contents of the messages to send next.

        Raise Violation if it is malformed.
        """

    def words(self, table: DataTable, other: str) -> Compared:
        """Return the result in words, with line numbers of this site's own `table`.

        `other` is the other site's name.
        """


class RowSearch:
    """Bisection for the first row whose name differs between two sites.

    About log2(m) digests go each way for m rows. Each is of the names of all rows up to one of them, and none of a
    single row. Both sites ask about the same numbers of rows in the same order, since both know all answers.
    """

    def __init__(self, ids: Sequence[str], federation: Federation) -> None:
        self._ids, self._federation = list(ids), federation
        self.same = 0  # the first rows are known to have the same names
        self.their_rows = 0
        self._differ = 0  # and so many of the first rows are known to differ; their_digest is of them
        self._their_digest = ""
        self._prefix = 0

    @property
    def done(self) -> bool:
        """Return whether the search has ended; then `same` is the number of first rows whose names are the same."""
        return self.same + 1 >= self._differ

    def begin(self, their_rows: int) -> list[bytes]:
        """Forget all that came; return the first message as a list of one: a digest of as many rows as both sites have.

        `their_rows` is the number of rows of the other site. The list is empty if a site has no rows.
        """
        self.their_rows, self.same = their_rows, 0
        self._prefix = min(their_rows, len(self._ids))
        self._differ, self._their_digest = self._prefix + 1, ""
        return [] if self.done else [self._question()]

    def receive(self, content: bytes | bytearray) -> list[bytes]:
        """Compare the other site's digest of some first rows, packed in `content`, with that of the rows here.

        Return the message with the next digest to be compared, as a list of one; an empty list if the search has ended.
        """
        told = PrefixDigest.from_json(unpack_json(content))
        if self.done or told.count != self._prefix or len(told.digest) != 2 * _DIGEST:
            raise unexpected("ROWS", f"the digest of the first {self._prefix} rows", told)
        if told.digest == self._digest(self._prefix):
            self.same = self._prefix
        else:
            self._differ, self._their_digest = self._prefix, told.digest
        if self.done:
            return []
        self._prefix = (self.same + self._differ) // 2
        return [self._question()]

    def place(self) -> int | None:
        """Return which row of this site, from 0, the other site has in the first place that differs; None if none.

        Each of this site's own names is tried in that place.
        """
        before = row_hash(self._ids[: self.same], self._federation)
        for row in range(self.same, len(self._ids)):
            if add_name(before.copy(), self._ids[row]).hexdigest() == self._their_digest:
                return row
        return None

    def words(self, table: DataTable, other: str) -> Compared:
        """Return the result in words: the line of `table` from which on rows differ from those of site `other`.

        The result is good if none does.
        """
        ids, same = self._ids, self.same
        if same == len(ids) == self.their_rows:
            return Compared(f"all {same:,} rows have the same names in the same order as those of {other}", True)
        begin = f"the first {_rows(same)} {'is' if same == 1 else 'are'} the same at {other}"
        if not same:
            begin = f"already the first row is another at {other}"
        if same == len(ids):
            return Compared(f"{begin}, which has {_rows(self.their_rows - same)} more at its end", False)
        here = f"line {table.line(same)} ({ids[same]})"
        if same == self.their_rows:
            return Compared(f"{begin}; {table.where} has {_rows(len(ids) - same)} more, from {here} on", False)
        place = self.place()
        there = f"a row that is not in {table.where}"
        if place is not None:
            there = f"the row that is line {table.line(place)} ({ids[place]}) here"
        return Compared(
            f"{begin}; then {table.where} has {here}, where {other} has {there}. Bring the rows of both files into one "
            "order of their names, and take out those that one of both lacks; names are compared as they are written",
            False,
        )

    def _question(self) -> bytes:
        """Return the content of a message: the digest of the first `_prefix` rows, which is compared next."""
        return pack_json(PrefixDigest(self._prefix, self._digest(self._prefix)).to_json())

    def _digest(self, n_rows: int) -> str:
        """Return the keyed digest of the names of the first `n_rows` rows, as 32 hexadecimal digits."""
        return row_hash(self._ids[:n_rows], self._federation).hexdigest()


class NameMatch:
    """Search for names that both sites have: each sends a keyed digest of every name.

    The digests are sorted, which hides the order of the names.
    """

    def __init__(self, ids: Sequence[str], federation: Federation) -> None:
        key = digest_key(federation)
        self._own = [
            hashlib.blake2b(name.encode(), key=key, digest_size=_DIGEST, person=b"distinct").digest() for name in ids
        ]
        self._theirs: set[bytes] = set()
        self._came = 0
        self.their_rows = 0

    @property
    def done(self) -> bool:
        """Return whether all digests of the other site have come."""
        return self._came >= self.their_rows

    def begin(self, their_rows: int) -> list[bytes]:
        """Forget all that came; return the contents of messages with the digests of this site's names, sorted.

        A message has up to _PIECE digests. `their_rows` is the number of rows of the other site.
        """
        self.their_rows, self._came = their_rows, 0
        self._theirs.clear()
        own = sorted(self._own)
        return [b"".join(own[k : k + _PIECE]) for k in range(0, len(own), _PIECE)]

    def receive(self, content: bytes | bytearray) -> list[bytes]:
        """Store digests of the other site's names; return an empty list, since no message follows."""
        n, left = divmod(len(content), _DIGEST)
        if left or not n or self._came + n > self.their_rows:
            raise Violation(f"{len(content)} bytes of digests, where {self.their_rows - self._came} digests are due")
        self._theirs.update(bytes(content[k : k + _DIGEST]) for k in range(0, len(content), _DIGEST))
        self._came += n
        return []

    def shared(self) -> list[int]:
        """Return the rows of this site, counted from 0, whose names the other site has too, ascending."""
        return [row for row, digest in enumerate(self._own) if digest in self._theirs]

    def words(self, table: DataTable, other: str) -> Compared:
        """Return the result in words: the lines of `table` whose row names site `other` has too.

        The result is good if there are none.
        """
        found = self.shared()
        if not found:
            return Compared(f"no row of {table.where} has the name of a row of {other}", True)
        lines = listed([str(table.line(row)) for row in found])
        return Compared(
            f"{other} has rows of the same names as {_rows(len(found))} of {table.where} (line {lines}); if they stand "
            "for the same patients, these count twice: take them out at one of the two sites",
            False,
        )


def _rows(n: int) -> str:
    """Return a number of rows as text: "1 row", "2,000 rows"."""
    return f"{n:,} row" if n == 1 else f"{n:,} rows"


class RowComparison:
    """One site's end of a comparison of row names with another site, which `run` carries out over a link."""

    def __init__(self, site: Site, other: str, purpose: str) -> None:
        """Read the names of the rows; raise InvalidInput if there are none, or if `purpose` does not suit the split.

        `other` is the name of the other site. `purpose` is ROWS, for the first row that differs (split by features), or
        DISTINCT, for names that both sites have (split by samples).
        """
        federation = site.federation
        self._site, self._other, self._purpose = site, other, purpose
        self._peer = federation.id_of(other)
        if self._peer == site.me:
            raise InvalidInput(f"{other} is this site; name the other one")
        by_features = federation.problem.split == "features"
        if by_features != (purpose == ROWS):
            raise InvalidInput(
                "split by features all sites hold the same rows on purpose; --rows finds where they part"
                if by_features
                else "split by samples every site has rows of its own; --distinct looks for the same ones at two sites"
            )
        self._table: DataTable = read_site_table(site)
        if self._table.ids is None:
            raise InvalidInput(
                f"{self._table.where}: rows have no names to be compared; name their column by `ids` in the node file"
            )
        kind = RowSearch if purpose == ROWS else NameMatch
        self._comparison: Comparison = kind(self._table.ids, federation)
        self._their_rows = 0

    def reveals(self) -> str:
        """Return sentences on what the two sites are about to learn from each other, for people who decide on it."""
        me, other, m = self._site.file.name, self._other, self._table.m
        if self._purpose == ROWS:
            return (
                f"{me} and {other} tell each other how many rows they have, and about {m.bit_length() + 1} keyed "
                "digests, each of the names of all rows up to one of them. Both learn how many rows at the beginning "
                "are the same, and can test guesses of the name in the first row that is not. Nothing else is sent."
            )
        return (
            f"{me} sends {other} a keyed digest of each of its {m:,} row names, without their order, and {other} does "
            "the same. Both learn how many rows the other has, and which of their own names it has too. The key is in "
            "the federation file, so each can also test any name that it can think of: of numbers or dates of birth, "
            "which can be counted through, it can find out all that the other has."
        )

    def run(self, seconds: float) -> Compared:
        """Wait up to `seconds` for the other site, compare the names of rows with it, and return the result in words.

        Raise InvalidInput if the other site does not take part.
        """
        site, federation = self._site, self._site.federation
        address = site.addresses.get(self._peer, federation.members[self._peer].address)
        hello = Hello(site.file.name, federation.entries(), self._purpose, n_rows=self._table.m)
        with node_log(site.file.name) as log:
            log.addHandler(logging.NullHandler())
            links = PeerLinks(replace(site, addresses={self._peer: address}), log, hello, self._check)
            with closing(links):
                links.start()
                self._talk(links, seconds)
        return self._comparison.words(self._table, self._other)

    def _talk(self, links: PeerLinks, seconds: float) -> None:
        """Exchange messages with the other site until the comparison is done at both.

        InvalidInput is raised if the other site refuses, or has not taken part after `seconds`.
        """
        link, end, began = links.links[self._peer], time.monotonic() + seconds, False
        while not (began and self._comparison.done):
            if link.refused:
                links.flush(1.0)
                raise InvalidInput(link.refused)
            if time.monotonic() > end:
                raise InvalidInput(f"{self._other} did not take part within {seconds:g} s ({link.why})")
            message = links.inbox.get(_POLL)
            began |= message is not None and message.up
            self._take(links, message)
        links.send(self._peer, Kind.BYE, pack_json({}))
        end = time.monotonic() + _LINGER
        while time.monotonic() < end and link.up:
            message = links.inbox.get(_POLL)
            if message is not None and message.kind is Kind.BYE:
                break
        links.flush(1.0)

    def _check(self, peer: int, hello: Hello) -> str | None:
        """Return why a site that sent this HELLO cannot compare rows with this one; None if it can."""
        del peer  # there is one
        if hello.purpose != self._purpose:
            doing = _RUNS.get(hello.purpose, "does something else")
            return f"{doing}, {self._site.file.name} {_RUNS[self._purpose]}"
        differs = difference(self._site.federation.entries(), hello.entries)
        if differs is not None:
            return f"has another configuration: {differs}"
        if hello.n_rows is None or not 0 < hello.n_rows < _MOST:
            return f"says that it has {hello.n_rows} rows"
        self._their_rows = hello.n_rows
        return None

    def _take(self, links: PeerLinks, message: Message | None) -> None:
        """Act on a message of the other site: send the first messages when its link comes up, then the answers.

        `message` None means that none has come, and nothing is done.
        """
        if message is None or (message.kind is None and not message.up):
            return
        try:
            if message.up:
                following = self._comparison.begin(self._their_rows)
            elif message.kind is Kind.ROWS:
                following = self._comparison.receive(message.content)
            else:
                raise Violation(f"a message of kind {message.kind and message.kind.name} in a comparison of rows")
        except Violation as error:
            links.drop(self._peer, str(error))
            return
        for content in following:
            links.send(self._peer, Kind.ROWS, content)
