"""Errors that glmesh raises on purpose.

GlmeshError
├── InvalidInput (ValueError)     the caller's data, options or configuration
│   ├── InvalidData               a matrix, labels or weights that no problem can be made of
│   │   └── Mismatch              names, kinds or labels that are not those of the others
│   ├── InvalidNetwork            a graph or mixing matrix that cannot carry a run
│   └── UnsuitablePair            loss, penalty, split or solver that do not go together
├── UnreadableFile (ValueError)   a data, model, plan or checkpoint file that is damaged or foreign
└── RankFailed                    another rank of an MPI program failed, and with it the run
"""


class GlmeshError(Exception):
    """Base class of all errors that glmesh raises on purpose.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import GlmeshError, Problem
    >>> try:
    ...     Problem.glm(np.eye(2), [1.0, np.nan])
    ... except GlmeshError as error:
    ...     print(type(error).__name__)
    InvalidData
    """

    public = "its data or its state folder cannot be used; its own log says why"  # what other sites may read


class InvalidInput(GlmeshError, ValueError):
    """Data, options or configuration of the caller cannot be used; also a ValueError."""


class InvalidData(InvalidInput):
    """The caller's matrix, labels or weights make no problem: not numbers, not finite, or of unfit shapes."""


class Mismatch(InvalidData):
    """Names, kinds or labels of a table are not those that were agreed on.

    The argument `public` is the message for every site: names of columns and sites, never values of the data. The
    message of the exception is `public` followed by `private`, which may quote values and only the site itself reads.
    """

    def __init__(self, public: str, *, private: str = "") -> None:
        """Make the exception whose message is `public` followed by `private`; other sites are shown `public` alone."""
        super().__init__(f"{public}: {private}" if private else public)
        self.public = public


class InvalidNetwork(InvalidInput):
    """The graph or mixing matrix cannot carry a run: it is disconnected, directed or not symmetric, for example."""


class UnsuitablePair(InvalidInput):
    """Loss, penalty, split, method or solver do not go together; the message says what would do."""


class UnreadableFile(GlmeshError, ValueError):
    """A data, model, plan or checkpoint file is missing, damaged or of another format; also a ValueError."""

    public = "its data file cannot be read; its own log says why"


class RankFailed(GlmeshError):
    """Another rank of an MPI program failed, and with it the run; the message says which and why."""
