"""What can be found out about a node before it starts; every line is a thing that was looked at."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike

import numpy as np

from glmesh.core.wire import Layout
from glmesh.errors import GlmeshError
from glmesh.federation.config.keys import expiry
from glmesh.federation.config.site import Site
from glmesh.federation.node.rows import load
from glmesh.federation.wire.frames import longest_mail
from glmesh.federation.wire.probe import probe
from glmesh.formatting import size
from glmesh.problem.summary import DataSummary

_SOON = 30  # days before a certificate's end that are worth a word
_SECONDS_A_BYTE, _LATENCY = 1 / 12.5e6, 0.02  # an ordinary link between sites: 100 Mbit/s, 20 ms
_ROUNDS = 400.0  # of a ring of a few nodes to 1e-6, times what the spectral gap makes of it


@dataclass(frozen=True)
class Finding:
    """What was looked at, and what was seen."""

    what: str
    seen: str
    level: str = "ok"  # or "warning" or "error"


def examine(path: str | PathLike[str]) -> Iterator[Finding]:
    """One thing after the other; an error that makes the rest pointless ends it."""
    try:
        site = Site.read(path)
    except GlmeshError as error:
        yield Finding("configuration", str(error), "error")
        return
    federation = site.federation
    yield Finding("configuration", f"{site.file.name}, one of {len(federation.members)} members")
    yield from _certificates(site)
    try:
        samples = load(site.data, target=site.file.target or None, ids=site.file.ids or None)
        data = samples.node_data(federation.problem.model(), site.file.name)
        data.compose(_alone(data.summary()), site.me)
    except GlmeshError as error:
        yield Finding("data", str(error), "error")
        return
    by_samples = federation.problem.split == "samples"
    yield Finding(
        "data", f"{samples.m:,} samples, {samples.X.shape[1]:,} features, split by {federation.problem.split}"
    )
    if data.spec.loss.classifies:
        yield Finding("labels", " and ".join(f"{label:g}" for label in np.unique(samples.y)))
    gap = 1.0 - federation.mixing.lambda2
    yield Finding("topology", f"{federation.network.topology}, connected, spectral gap {gap:.3f}")
    for peer, address in site.addresses.items():
        member = federation.members[peer]
        look = partial(_reach, address, site, member.name, member.fingerprint)
        yield _tried(f"neighbour {member.name}", look)
    d = data.columns.d if by_samples else samples.m
    message = longest_mail(Layout(d, len(federation.members), federation.network.wire == "float32")) / 4
    yield Finding("messages", f"about {size(int(message))} to each of {len(site.addresses)} neighbours a round")
    rounds = _ROUNDS / math.sqrt(gap)
    minutes = rounds * (_LATENCY + message * len(site.addresses) * _SECONDS_A_BYTE) / 60
    yield Finding("time", f"about {max(minutes, 1):.0f} min if it takes {rounds:,.0f} rounds over links of 100 Mbit/s")


def _alone(own: DataSummary) -> DataSummary:
    """Return a summary that the node's own data fits; a single class is no error, other nodes may hold the other."""
    return replace(own, y_min=own.y_min - 1.0) if own.y_min == own.y_max else own


def _certificates(site: Site) -> Iterator[Finding]:
    now = datetime.datetime.now(datetime.UTC)
    for what, content in (("certificate", site.identity.certificate), ("authority", site.identity.ca)):
        end = expiry(content)
        days = (end - now).days
        level = "error" if end <= now else "warning" if days < _SOON else "ok"
        yield Finding(what, f"{'expired on' if end <= now else 'good until'} {end:%Y-%m-%d}", level)


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, look())
    except ConnectionRefusedError:
        return Finding(what, "nobody listens there yet; nodes may start in any order", "warning")
    except (GlmeshError, OSError) as error:
        return Finding(what, str(error), "error")


def _reach(address: str, site: Site, name: str, listed: str) -> str:
    began = time.monotonic()
    probe(address, site, name, listed)
    return f"reached at {address} in {1000 * (time.monotonic() - began):.0f} ms, with the certificate that is listed"
