"""What can go wrong, as types.

GlmeshError
├── InvalidInput (ValueError)     the caller's data, options or configuration
│   ├── InvalidData               a matrix, labels or weights that no problem can be made of
│   ├── InvalidNetwork            a graph or mixing matrix that cannot carry a run
│   └── UnsuitablePair            loss, penalty, split or solver that do not go together
├── UnreadableFile (ValueError)   a data, model, plan or checkpoint file that is damaged or foreign
└── RankFailed                    another rank of an MPI program failed, and with it the run
"""


class GlmeshError(Exception):
    """Anything that glmesh raises on purpose."""


class InvalidInput(GlmeshError, ValueError):
    """The caller's data, options or configuration cannot be used."""


class InvalidData(InvalidInput):
    """A matrix, labels or weights that no problem can be made of."""


class InvalidNetwork(InvalidInput):
    """A graph or mixing matrix that cannot carry a run."""


class UnsuitablePair(InvalidInput):
    """Loss, penalty, split or solver that do not go together; the message says what would do."""


class UnreadableFile(GlmeshError, ValueError):
    """A data, model, plan or checkpoint file that is damaged, truncated or of another format."""


class RankFailed(GlmeshError):
    """Another rank of an MPI program failed, and with it the run; the message says which and why."""
