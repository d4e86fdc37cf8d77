"""The protocols that methods, transports and accelerators satisfy."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeVar

from glmesh.core.block import Block
from glmesh.core.messages import Halo, Outbox, Rounds
from glmesh.types import Vector

S = TypeVar("S")
Worked = TypeVar("Worked", contravariant=True)
Options = TypeVar("Options", contravariant=True)


class Method(Protocol[S]):
    """An algorithm, written once over a block; its round does no I/O, it yields what it wants exchanged."""

    def init(self, block: Block, x: Vector | None) -> S:
        """The state before the first round, from zero or from the block's variables x."""
        ...

    def round(self, block: Block, state: S) -> Generator[Outbox, Halo, None]:
        """One round: yields each set of rows it wants exchanged and is sent the halo."""
        ...


class Accelerator(Protocol[Worked, Options]):
    """Makes the rounds of a method, faster than plain ones; one object per block, saved with the state.

    `Worked` is the part of the state that an accelerator works on, `Options` what the options of the method come to.
    """

    @property
    def value(self) -> float:
        """Objective as the block's first node last heard of it; NaN or inf: not known."""
        ...

    def round(self, block: Block, state: Worked, how: Options) -> Rounds:
        """Make one round: yield each Outbox to exchange and be sent its Halo."""
        ...

    def reset(self, block: Block, state: Worked) -> None:
        """Forget what depends on x and v: both were changed from outside, and agree with each other."""
        ...

    def retarget(self, block: Block, state: Worked) -> None:
        """Forget what depends on f and g: both are others from now on, on the same columns."""
        ...

    def reset_node(self, block: Block, state: Worked, k: int) -> None:
        """Forget what depends on x_k and v_k of the block's k-th node: they were changed from outside."""
        ...
