"""How sites agree on the levels of a formula's categories, by masked counts: no total tells who has which level.

Where the contract has the levels, their counts are summed. Where it has not, a level stands in one of SLOTS slots, by a
keyed digest of its text, and the counts of the slots are summed, anew in twice as many if two levels share one. For
slots with enough rows a second total has the text itself, times the count. So the texts of rare levels are never told,
and of no level who has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glmesh.contract import Column
from glmesh.contract.fitting import listed
from glmesh.core.moments import with_moments
from glmesh.errors import InvalidInput, Mismatch
from glmesh.federation.node.rules import LEAST_LEVEL
from glmesh.federation.totals import Refusal, WantedTotal
from glmesh.formulas import OTHERS, Design, Formula, Frame, Variable
from glmesh.formulas.design import CATEGORY, NUMBER
from glmesh.formulas.frames import SITE, as_column, plain
from glmesh.types import Flags, Unsigned

SLOTS = 1 << 11  # [slots] of a category at first: of 10 levels two share one in 2 % of all cases
ATTEMPTS = 10  # [times] that levels are counted, in twice as many slots each time, and that rows are left out
WORDS = 32  # [numbers] of 4 bytes that carry the text of a level
LONGEST = 4 * WORDS - 1  # [bytes] of a level's text

Ask = Callable[[dict[str, object], Unsigned], Generator[WantedTotal, Unsigned, Unsigned]]
Counting = Generator[WantedTotal, Unsigned, "DesignAgreement"]


@dataclass(frozen=True, eq=False)
class DesignAgreement:
    """What all members have agreed on, and which of a site's own rows are in it."""

    design: Design
    kept: Flags  # (m,) of the site's rows: whether they are in the fit
    frame: Frame  # of the rows that are, rare levels merged
    said: tuple[str, ...]  # sentences for people on rare levels
    n: int | None  # rows of all sites before any were left out for rare levels; None: nothing was counted


@dataclass(frozen=True, eq=False)
class SiteFrame:
    """A site's rows as a formula sees them, and what the federation says of levels."""

    formula: Formula
    frame: Frame  # this site's rows, without gaps
    columns: Mapping[str, Column]  # of the contract, by name: kinds, and levels where they are given
    sites: tuple[str, ...]  # names of all members
    me: str  # name of this one
    rare_levels: str  # one of `RARE`
    key: str  # of the digests of levels: the federation's digest
    reveal_sites: bool = False
    beside: tuple[str, ...] = ()  # columns that are in the fit as they are, behind those of the formula: an offset

    @property
    def categories(self) -> list[str]:
        """Return the variables that are used as categories, but for the site itself."""
        found = [
            name
            for name in self.formula.variables
            if name in self.formula.categories or (name != SITE and self.columns[name].kind == CATEGORY)
        ]
        return [name for name in found if name != SITE]

    def agree(self, members: Sequence[int], ask: Ask) -> Counting:
        """Return an DesignAgreement after all members have counted; it yields what `ask(head, content)` yields.

        Refusal is raised at all sites for levels that are rare where the federation refuses those, and at this one for
        a level that tells it apart.
        """
        flags, frame, said = np.ones(self.frame.m, dtype=np.bool_), self.frame, dict[str, str]()
        left_out: dict[str, dict[str, None]] = {name: {} for name in self.categories}
        n: int | None = None
        for _ in range(ATTEMPTS):
            found: dict[str, _LevelCounts] = {}
            for name in self.categories:
                found[name] = yield from self._count(name, frame, ask)
            for name, one in found.items():
                n = one.n if n is None else n
                self._refuse_rare(name, one, frame)
                if one.n_rare:
                    said.setdefault(name, _rare_text(name, one, self.rare_levels))
                    left_out[name] |= dict.fromkeys(one.rare)
            if self.rare_levels != "drop" or not any(one.n_rare for one in found.values()):
                break
            own = np.ones(frame.m, dtype=np.bool_)
            for name, one in found.items():
                own &= np.array([_text(value) in one.kept for value in frame.values(name)], dtype=np.bool_)
            flags[np.flatnonzero(flags)] = own
            frame = frame.take(own)
        else:
            why = f"after leaving rows out {ATTEMPTS} times there are rare levels; merge levels in the files"
            raise Refusal(why, public=why)
        for name, one in found.items():
            self._refuse_alone(name, one, frame)
        if self.rare_levels == "drop":
            found = {name: replace(one, rare=tuple(left_out[name])) for name, one in found.items()}
        return DesignAgreement(self._design(found, members), flags, self._merged(frame, found), tuple(said.values()), n)

    def alone(self) -> DesignAgreement | None:
        """Return what would be agreed on if this site had no others; None: its rows alone make no columns."""
        found = {
            name: _LevelCounts(_counts(self.frame, name), (), 0, 0, False, self.frame.m) for name in self.categories
        }
        kept, frame = np.ones(self.frame.m, dtype=np.bool_), self._merged(self.frame, found)
        try:
            design = with_moments(self._design(found, [self.sites.index(self.me)]), [frame])
        except (Refusal, InvalidInput, Mismatch):
            return None
        return DesignAgreement(design, kept, frame, (), None)

    # --- counting

    def _count(self, name: str, frame: Frame, ask: Ask) -> Generator[WantedTotal, Unsigned, _LevelCounts]:
        """Return the levels of a variable with their rows over all sites; it yields requests for totals."""
        own = _counts(frame, name)
        said = [plain(one) for one in self.columns[name].levels]
        if said:
            content = np.array([frame.m, *(own.get(level, 0) for level in said)], dtype=np.uint64)
            total = yield from ask({"levels": name, "slots": len(said)}, content)
            counts = dict(zip(said, total[1:].tolist(), strict=True))
            return _LevelCounts.of(counts, int(total[0]), told=True)
        for attempt in range(ATTEMPTS):
            slots = {level: self._slot(name, level, attempt) for level in own}
            content = np.zeros((SLOTS << attempt) + 1, dtype=np.uint64)
            content[0] = frame.m
            for level, slot in slots.items():
                content[1 + slot] += np.uint64(own[level])
            total = yield from ask({"levels": name, "slots": SLOTS << attempt, "attempt": attempt}, content)
            common = (np.flatnonzero(total[1:] >= LEAST_LEVEL)).tolist()
            words = np.zeros(0, dtype=np.uint64)
            if common:
                head = {"names": name, "slots": common, "attempt": attempt}
                words = yield from ask(head, self._texts(common, slots, own))
            texts = self._read(name, attempt, common, total[1:], words.reshape(len(common), WORDS))
            if texts is not None:
                return _LevelCounts.of(texts, int(total[0]), told=False, n_few=_n_few(total[1:]))
        raise Refusal(
            f"the levels of {name} cannot be told apart; write them into the federation file",
            public=f"levels of {name}",
        )

    def _slot(self, name: str, level: str, attempt: int) -> int:
        """Return the slot of a level, from a keyed digest of its text."""
        key = hashlib.blake2b(f"{self.key}\n{name}\n{attempt}".encode(), digest_size=32).digest()
        return int.from_bytes(hashlib.blake2b(level.encode(), key=key, digest_size=8).digest(), "little") % (
            SLOTS << attempt
        )

    def _texts(self, common: Sequence[int], slots: Mapping[str, int], own: Mapping[str, int]) -> Unsigned:
        """Return, for each slot of `common`, the texts of this site's levels in it, as words times their rows, flat."""
        out = np.zeros((len(common), WORDS), dtype=np.uint64)
        places = {slot: k for k, slot in enumerate(common)}
        for level, slot in slots.items():
            if slot in places:
                out[places[slot]] += _packed(level) * np.uint64(own[level])
        return out.ravel()

    def _read(
        self, name: str, attempt: int, common: Sequence[int], counts: Unsigned, words: Unsigned
    ) -> dict[str, int] | None:
        """Return {level: rows} of the slots `common`, from the sums of words; None if two levels share a slot."""
        found = {}
        for slot, row in zip(common, words, strict=True):
            times = counts[slot]
            if (row % times).any():
                return None
            level = unpacked(row // times)
            if level is None or self._slot(name, level, attempt) != slot:
                return None
            found[level] = int(times)
        return found

    # --- what follows

    def _refuse_rare(self, name: str, found: _LevelCounts, frame: Frame) -> None:
        """Raise Refusal for rare levels, if the federation refuses them or merging them leaves one that is rare."""
        if found.n_rare:
            self._refuse_rare_levels(name, found, frame)
        reference = self.columns[name].reference
        if reference is not None and plain(reference) not in found.kept:
            why = f"the reference {plain(reference)!r} of {name} has fewer than {LEAST_LEVEL} rows over all sites"
            raise Refusal(f"{why}; name another", public=why)
        if len(found.kept) + (self.rare_levels == "merge" and found.n_rare > 0) < 2:
            why = (
                f"{name} has one level only with {LEAST_LEVEL} rows or more over all sites; leave it out of the formula"
            )
            raise Refusal(why, public=why)

    def _refuse_rare_levels(self, name: str, found: _LevelCounts, frame: Frame) -> None:
        """Raise Refusal for rare levels, unless they are to be left out, or to be merged into one that is not rare."""
        which = f" ({listed(found.rare)})" if found.rare else ""
        levels = f"{found.n_few} level{'s' if found.n_few > 1 else ''} of {name}{which}"
        few = f"{levels} with under {LEAST_LEVEL} rows over all sites"
        if self.rare_levels == "merge" and found.n_rare < LEAST_LEVEL:
            why = f"{few}, {found.n_rare} rows together, too few to be merged"
            raise Refusal(f"{why}; write rare_levels = 'drop' into [problem]", public=why)
        if self.rare_levels == "refuse":
            own = sorted(level for level in _counts(frame, name) if level not in found.kept)
            here = f"; of this site's levels {listed(own)}" if own and not which else ""
            do = "merge levels in the files, or write rare_levels = 'merge' or 'drop' into [problem]"
            raise Refusal(f"{few}{here}; {do}", public=few)

    def _refuse_alone(self, name: str, found: _LevelCounts, frame: Frame) -> None:
        """Raise Refusal if all rows of this site have one level, and no others have it, so that it tells the site."""
        own = _counts(frame, name)
        if self.reveal_sites or len(own) != 1 or len(self.sites) < 2:
            return
        ((level, times),) = own.items()
        if found.kept.get(level) == times:
            raise Refusal(
                f"all rows of this site, and no others, have the level {level!r} of {name}, so its columns sum "
                "this site's rows only; leave it out of the formula, or write reveal_sites = true into [problem]",
                public=f"refused by {self.me}",
            )

    def _merged(self, frame: Frame, found: Mapping[str, _LevelCounts]) -> Frame:
        """Return the frame with `OTHERS` in place of levels that are not kept, and texts in columns of categories."""
        columns = dict(frame.columns)
        for name, one in found.items():
            if not self._is_number(name, one):
                cells = [None if value is None else plain(value) for value in frame.values(name)]
                columns[name] = as_column(
                    [OTHERS if cell is not None and cell not in one.kept else cell for cell in cells]
                )
        return replace(frame, columns=columns)

    def _is_number(self, name: str, found: _LevelCounts) -> bool:
        """Return whether the levels of a variable are numbers, none of which is merged."""
        return self.columns[name].kind != CATEGORY and not (self.rare_levels == "merge" and found.n_rare)

    def _design(self, found: Mapping[str, _LevelCounts], members: Sequence[int]) -> Design:
        """Return the design of the levels that were found; Refusal says what is wrong with the formula for them."""
        variables = []
        for name in self.formula.variables:
            if name == SITE:
                variables.append(Variable(SITE, CATEGORY, tuple(self.sites[k] for k in members)))
            elif name in found:
                variables.append(self._variable(name, found[name]))
            else:
                variables.append(Variable(name))
        made = Design(self.formula.text, self.formula.response, self.formula.terms, tuple(variables))
        try:
            if not made.names:
                raise InvalidInput("the formula makes no column")
        except InvalidInput as error:
            raise Refusal(str(error), public=str(error)) from None
        return made

    def _variable(self, name: str, found: _LevelCounts) -> Variable:
        """Return a category with the levels that are kept, in the order of the contract, or sorted."""
        reference = self.columns[name].reference
        rare = tuple(found.rare)
        merges, drops = self.rare_levels == "merge" and found.n_rare > 0, self.rare_levels == "drop"
        if self._is_number(name, found):
            numbers = tuple(float(one) for one in found.kept)
            levels = numbers if found.told else tuple(sorted(numbers))
            return Variable(name, NUMBER, levels, None if reference is None else float(reference),
                left_out=tuple(float(one) for one in rare) if drops else ())  # fmt: skip
        levels_said = [*found.kept] if found.told else sorted(found.kept)
        if merges:
            levels_said.append(OTHERS)
        return Variable(
            name,
            CATEGORY,
            tuple(levels_said),
            None if reference is None else plain(reference),
            merged=rare if merges else (),
            left_out=rare if drops else (),
        )


@dataclass(frozen=True)
class _LevelCounts:
    """Levels of a variable over all sites: those with enough rows, and what is known of the others."""

    kept: dict[str, int]  # level -> rows, LEAST_LEVEL or more; in the order of the contract if `told`
    rare: tuple[str, ...]  # levels with fewer rows, where the contract names them
    n_few: int  # how many levels these are, as far as counts tell
    n_rare: int  # rows with them
    told: bool  # the contract has the levels
    n: int  # rows in all

    @staticmethod
    def of(counts: Mapping[str, int], n: int, *, told: bool, n_few: int = 0) -> _LevelCounts:
        """Return what counts of n rows in all say; `n_few` is the number of rare levels whose texts are not told."""
        kept = {level: times for level, times in counts.items() if times >= LEAST_LEVEL}
        rare = tuple(level for level, times in counts.items() if 0 < times < LEAST_LEVEL)
        return _LevelCounts(kept, rare, n_few + len(rare), n - sum(kept.values()), told, n)


def _n_few(counts: Unsigned) -> int:
    """Return how many slots have rows, but fewer than LEAST_LEVEL."""
    return int(np.count_nonzero((counts > 0) & (counts < LEAST_LEVEL)))


def _counts(frame: Frame, name: str) -> dict[str, int]:
    """Return {level: rows} of a column; Refusal is raised for a text that is too long to be told."""
    out: dict[str, int] = {}
    for value in frame.values(name):
        level = _text(value)
        out[level] = out.get(level, 0) + 1
    longest = max(out, key=lambda one: len(one.encode()), default="")
    if len(longest.encode()) > LONGEST:
        raise Refusal(f"column {name} has the level {longest!r:.60}, longer than {LONGEST} bytes; shorten it",
            public=f"a level of {name} is too long")  # fmt: skip
    return out


def _packed(level: str) -> Unsigned:
    """Return a text as WORDS numbers of 4 bytes, its length first."""
    content = level.encode()
    whole = bytes([len(content)]) + content.ljust(LONGEST, b"\0")
    return np.frombuffer(whole, dtype="<u4").astype(np.uint64)


def unpacked(words: Unsigned) -> str | None:
    """Return the text that `_packed` made numbers of; None if these are of no text."""
    if (words >= 1 << 32).any():
        return None
    whole = words.astype("<u4").tobytes()
    content, padding = whole[1 : 1 + whole[0]], whole[1 + whole[0] :]
    try:
        return content.decode() if not any(padding) else None
    except UnicodeDecodeError:
        return None


def _text(value: str | float | None) -> str:
    """Return a level as text; "" for None, which no row that is whole has."""
    return "" if value is None else plain(value)


def _rare_text(name: str, found: _LevelCounts, rule: str) -> str:
    """Return a sentence that says which levels of a variable are rare, how many rows they have, and what is done."""
    which = f" ({listed(found.rare)})" if found.rare else ""
    done = f"merged into {OTHERS!r}" if rule == "merge" else "left out with their rows"
    levels = f"{found.n_few} level{'s' if found.n_few > 1 else ''}{which}"
    return f"{name}: {levels} with under {LEAST_LEVEL} rows over all sites, {found.n_rare} in all, {done}"
