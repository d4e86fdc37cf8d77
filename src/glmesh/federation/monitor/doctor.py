"""What can be found out about a node before it starts, one finding per thing that was looked at."""

import datetime
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike

import numpy as np

from glmesh.core import Layout
from glmesh.errors import GlmeshError
from glmesh.federation.config import Site, expiry
from glmesh.federation.node.rows import read_site_table
from glmesh.federation.wire import longest_mail
from glmesh.federation.wire.probe import probe
from glmesh.formatting import size
from glmesh.problem import DataSummary

_SOON = 30  # [days] before the end of a certificate from which on a finding is a warning
_SECONDS_A_BYTE = 1 / 12.5e6  # [s/byte] of an assumed link of 100 Mbit/s
_LATENCY = 0.02  # [s] of an assumed link between sites
_ROUNDS = 400.0  # [rounds] to 1e-6 at spectral gap 1; rounds grow as 1/sqrt(gap) with acceleration. A rough guess


@dataclass(frozen=True)
class Finding:
    """Result of one check of a node before it starts: what was checked, what was seen, and how bad it is."""

    what: str  # name of the check
    seen: str  # text for people
    level: str = "ok"  # or "warning", or "error": the node would not run


def examine(path: str | PathLike[str]) -> Iterator[Finding]:
    """Check the node of a node file and yield a Finding per check, up to an error that makes others useless."""
    try:
        site = Site.read(path)
    except GlmeshError as error:
        yield Finding("configuration", str(error), "error")
        return
    federation = site.federation
    yield Finding("configuration", f"{site.file.name}, one of {len(federation.members)} members")
    yield from _certificates(site)
    try:
        table = read_site_table(site.data, target=site.file.target or None, ids=site.file.ids or None)
        data = table.node_data(federation.problem.model(), site.file.name)
        data.compose(_alone(data.summary()), site.me)
    except GlmeshError as error:
        yield Finding("data", str(error), "error")
        return
    by_samples = federation.problem.split == "samples"
    yield Finding("data", f"{table.m:,} samples, {table.X.shape[1]:,} features, split by {federation.problem.split}")
    if data.spec.loss.classifies:
        yield Finding("labels", " and ".join(f"{label:g}" for label in np.unique(table.y)))
    gap = 1.0 - federation.mixing.lambda2
    yield Finding("topology", f"{federation.network.topology}, connected, spectral gap {gap:.3f}")
    for peer, address in site.addresses.items():
        member = federation.members[peer]
        look = partial(_reach, address, site, member.name, member.fingerprint)
        yield _tried(f"neighbour {member.name}", look)
    d = data.columns.d if by_samples else table.m
    message = longest_mail(Layout(d, len(federation.members), federation.network.wire == "float32")) / 4
    yield Finding("messages", f"about {size(int(message))} to each of {len(site.addresses)} neighbours a round")
    rounds = _ROUNDS / math.sqrt(gap)
    minutes = rounds * (_LATENCY + message * len(site.addresses) * _SECONDS_A_BYTE) / 60
    yield Finding("time", f"about {max(minutes, 1):.0f} min if it takes {rounds:,.0f} rounds over links of 100 Mbit/s")


def _alone(own: DataSummary) -> DataSummary:
    """Return the summary of a node's data, widened to two labels if it has one: others may hold the second class."""
    return replace(own, y_min=own.y_min - 1.0) if own.y_min == own.y_max else own


def _certificates(site: Site) -> Iterator[Finding]:
    """Yield a Finding each on when the certificates of the node and of the authority expire."""
    now = datetime.datetime.now(datetime.UTC)
    for what, content in (("certificate", site.identity.certificate), ("authority", site.identity.ca)):
        end = expiry(content)
        days = (end - now).days
        level = "error" if end <= now else "warning" if days < _SOON else "ok"
        yield Finding(what, f"{'expired on' if end <= now else 'good until'} {end:%Y-%m-%d}", level)


def _tried(what: str, look: Callable[[], str]) -> Finding:
    """Return a Finding on `what` with the text that `look` returns, or with the error that it raises."""
    try:
        return Finding(what, look())
    except ConnectionRefusedError:
        return Finding(what, "nobody listens there yet; nodes may start in any order", "warning")
    except (GlmeshError, OSError) as error:
        return Finding(what, str(error), "error")


def _reach(address: str, site: Site, name: str, listed: str) -> str:
    """Connect to a neighbour and check its certificate's fingerprint; return a text with the milliseconds it took."""
    began = time.monotonic()
    probe(address, site, name, listed)
    return f"reached at {address} in {1000 * (time.monotonic() - began):.0f} ms, with the certificate that is listed"
