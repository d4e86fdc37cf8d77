"""`datasets`: Table 1 of the paper, with the data that was used here."""

from glmesh.bench.data import ENTRIES
from glmesh.bench.report import table
from glmesh.paper.experiment import Claim, Findings, Settings

NAMES = ("url", "webspam", "epsilon", "rcv1")


def datasets(settings: Settings) -> Findings:
    """Compare the paper's four data sets with those that were used here; return the findings with a table."""
    rows, real = [], []
    for name in NAMES:
        data = settings.load(*((name, "news20") if name == "webspam" else (name,)))
        m, p = data.X.shape
        source = data.source if data.name == name else f"{data.name} ({data.source}) in its place"
        rows.append([ENTRIES[name].title, ENTRIES[name].shape, f"{m:,}", f"{p:,}", f"{data.density:.2g}", source])
        real.append(data.real and data.name == name)
    about = (
        "The paper's Table 1 (samples x features, sparsity), and what was used here; features that occur in no sample "
        "are not counted."
    )
    header = ["data set", "in the paper", "samples", "features", "density", "from"]
    found = f"{sum(real)} of {len(real)} from files of that name or subsets of them; the others are stand-ins."
    claim = Claim("the experiments were run on the paper's data.", all(real), found, ours=True)
    return Findings("datasets", "Data sets", about, [claim], table=table(header, rows))
