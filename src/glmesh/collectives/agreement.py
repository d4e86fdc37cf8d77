"""What nodes with data of their own must know of each other's data, found by messages before round 0."""

import numpy as np

from glmesh.collectives.flood import flood_max
from glmesh.core import Setup, Transport
from glmesh.problem import DataSummary


def agree_on_data(setup: Setup, transport: Transport) -> DataSummary | None:
    """Return the DataSummary of all nodes (width, range of labels, total weight), or None for pooled data.

    It is None where the data came pooled, so that nothing need be agreed. Nodes flood their own summaries to all others
    before round 0, in as many exchanges as the diameter of the network. `transport` carries the messages.
    """
    if setup.problem.pooled:
        return None
    own = [np.stack([setup.problem.parts[k].summary().to_vector() for k in ids]) for ids in setup.node_ids]
    floods = [flood_max(part, setup.diameter) for part in own]
    return DataSummary.from_vector(setup.agree(transport, floods)[0][0])
