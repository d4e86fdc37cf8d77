"""What can be found out about a node before it starts, one finding per thing that was looked at."""

from __future__ import annotations

import datetime
import errno
import math
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike

from glmesh.contract import Contract, DataTable, Fitted
from glmesh.contract.fitting import listed, spoken
from glmesh.core import Layout
from glmesh.errors import GlmeshError, Mismatch
from glmesh.federation.config import Site, expiry
from glmesh.federation.monitor.screen import released_text
from glmesh.federation.monitor.server import ask
from glmesh.federation.node.agreement import gossip_warnings, scale_warnings
from glmesh.federation.node.checkpoint import Store
from glmesh.federation.node.column_totalling import ColumnTotalling
from glmesh.federation.node.forecast import LATENCY, SECONDS_A_BYTE, Forecast
from glmesh.federation.node.neighbourhood import clock
from glmesh.federation.node.site_data import SiteData, own_contract, warnings_of
from glmesh.federation.node.totalling import Totalling
from glmesh.federation.rows import RowComparison
from glmesh.federation.wire import ROWS, longest_mail
from glmesh.federation.wire.listed import listed_certificate
from glmesh.formatting import size
from glmesh.problem import DataSummary, NodeData, ProblemSpec

_SOON = 30  # [days] before the end of a certificate from which on a finding is a warning
_ROUNDS = 400.0  # [rounds] to 1e-6 at spectral gap 1; rounds grow as 1/sqrt(gap) with acceleration. A rough guess


@dataclass(frozen=True)
class Finding:
    """Result of one check of a node before it starts: what was checked, what was seen, and how bad it is."""

    what: str  # name of the check
    seen: str  # text for people
    level: str = "ok"  # or "warning", or "error": the node would not run


@dataclass(frozen=True)
class OwnData:
    """A site's data file in three forms: as it is, in the order of a contract, and as rows of the problem.

    A contract says which target, columns and labels every site has.
    """

    file: SiteData
    contract: Contract  # of the federation file, or as the site's own file has it
    fitted: Fitted
    rows: NodeData

    @staticmethod
    def read(site: Site) -> OwnData:
        """Return the data of a site; raise an error of the file, or Mismatch, if the site could not train with it."""
        file = SiteData.read(site)
        contract = own_contract(file.table, site)
        fitted = file.fitted(contract)
        rows = file.node_data(fitted)
        _check_labels(file.table, rows.spec)
        summary = _alone(rows.summary())
        if site.federation.problem.by_totals:
            rows.check(summary, site.me)
        else:
            rows.compose(summary, site.me)
        return OwnData(file, contract, fitted, rows)


def examine(path: str | PathLike[str]) -> Iterator[Finding]:
    """Check the node that the node file at `path` describes, before it starts; yield a Finding per check.

    It stops after an error that makes further checks useless.
    """
    try:
        site = Site.read(path)
    except GlmeshError as error:
        yield Finding("configuration", str(error), "error")
        return
    federation = site.federation
    yield Finding("configuration", f"{site.file.name}, one of {len(federation.members)} members")
    yield from _certificates(site)
    yield from _port(site)
    try:
        own = OwnData.read(site)
    except (GlmeshError, OSError) as error:
        yield Finding("data", str(error), "error")
        return
    yield from _table(site, own)
    if federation.problem.by_totals:
        yield from _totals(site, own.rows)
    else:
        yield _tried("state folder", lambda: _state(Store(site, own.file)))
    yield from _network(site)
    if not federation.problem.by_totals:
        yield from _gossip(site, own)


def _table(site: Site, own: OwnData) -> Iterator[Finding]:
    """Yield Findings on a site's table: its size, whether it fits the contract, and its labels."""
    table, split = own.fitted.table, site.federation.problem.split
    yield Finding("data", f"{table.m:,} samples, {table.X.shape[1]:,} features, split by {split}")
    yield from _contract(site, own)
    if own.rows.spec.loss.classifies:
        yield Finding("labels", spoken(own.file.table.labels).replace(", ", " and "))


def _network(site: Site) -> Iterator[Finding]:
    """Yield Findings on the network: how fast it mixes, whether neighbours can be reached, what they can learn."""
    federation = site.federation
    gap = 1.0 - federation.mixing.lambda2
    yield Finding("topology", f"{federation.network.topology}, connected, spectral gap {gap:.3f}")
    for peer, address in site.addresses.items():
        member = federation.members[peer]
        look = partial(_reach, address, site, member.name, member.fingerprint)
        yield _tried(f"neighbour {member.name}", look)
    yield Finding("privacy", federation.disclosure, "ok" if federation.is_masked else "warning")


def _gossip(site: Site, own: OwnData) -> Iterator[Finding]:
    """Yield Findings on a site that trains by gossip: bytes of messages, and the time of a fit."""
    federation, table = site.federation, own.fitted.table
    d = own.rows.columns.d if federation.problem.split == "samples" else table.m
    message = longest_mail(Layout(d, len(federation.members), federation.network.wire == "float32")) / 4
    yield Finding("messages", f"about {size(int(message))} to each of {len(site.addresses)} neighbours a round")
    rounds = _ROUNDS / math.sqrt(1.0 - federation.mixing.lambda2)
    minutes = rounds * (LATENCY + message * len(site.addresses) * SECONDS_A_BYTE) / 60
    yield Finding("time", f"about {max(minutes, 1):.0f} min if it takes {rounds:,.0f} rounds over links of 100 Mbit/s")


def _totals(site: Site, data: NodeData) -> Iterator[Finding]:
    """Yield Findings on a site that trains from masked sums: its rules, bytes of messages, time of a fit."""
    federation = site.federation
    for remark in federation.remarks():
        yield Finding("federation", remark, "warning")
    try:
        kind = ColumnTotalling if federation.by_columns else Totalling
        shown = kind.check(federation, site, data, _alone(data.summary()))
        yield Finding("rules", "this site's own rules let it contribute, as far as its data alone tells")
        yield Finding("released", released_text(shown))
    except (GlmeshError, OSError) as error:
        yield Finding("rules", str(error), "error")
    n_links = len(site.addresses)
    try:
        if federation.by_columns:
            expected = Forecast.of_columns(federation, data.columns.d, n_links)
        else:
            expected = Forecast.of(federation, data.p, n_links, data.spec.loss.n_outputs)
    except GlmeshError as error:
        yield Finding("messages", str(error), "error")
        return
    yield Finding(
        "messages",
        f"about {expected.totals} totals of up to {size(expected.largest)}, {size(int(expected.sent))} in all to each "
        f"of {n_links} neighbours",
    )
    yield Finding("time", f"about {max(expected.seconds, 1):.0f} s over links of 100 Mbit/s, without computing")


def compare(path: str | PathLike[str], purpose: str, other: str) -> Iterator[Finding]:
    """Compare the names of rows with those of site `other`, which calls this function at the same time; yield Findings.

    `purpose` ROWS looks for the first row that differs, DISTINCT for names that both sites have. The first Finding says
    what both sites learn from each other, before anything is sent.
    """
    try:
        site = Site.read(path)
        comparison = RowComparison(site, other, purpose)
    except (GlmeshError, OSError) as error:
        yield Finding("rows", str(error), "error")
        return
    yield Finding("what is told", comparison.reveals())
    within = site.federation.network.meet_within
    same = f"`glmesh doctor {other}.toml --{purpose} {site.file.name}`"
    yield Finding("waiting", f"until {clock(time.time() + within)} for {other}, which runs {same} at the same time")
    try:
        compared = comparison.run(within)
    except GlmeshError as error:
        yield Finding("rows", str(error), "error")
    else:
        yield Finding("rows", compared.text, "ok" if compared.good else "error" if purpose == ROWS else "warning")


def _port(site: Site) -> Iterator[Finding]:
    """Yield one Finding on the port: this node can listen there, runs there already, or cannot listen (an error)."""
    host, _, port = site.file.listen.rpartition(":")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host.strip("[]"), int(port)), family=family):
            yield Finding("port", f"{site.file.listen} is free")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            running = ask(site) is not None
            said = "this node runs already" if running else "another program listens there; use another port"
            yield Finding("port", f"{site.file.listen} is in use: {said}", "warning" if running else "error")
        else:
            yield Finding("port", f"cannot listen on {site.file.listen}: {error.strerror or error}", "error")
    except ValueError:
        yield Finding("port", f"{site.file.listen!r} is no address; expected host:port", "error")


def _contract(site: Site, own: OwnData) -> Iterator[Finding]:
    """Yield a Finding on how a site's table fits the contract, and a warning for each column that looks wrong.

    The contract says which target, columns and labels every site has.
    """
    if site.federation.data is not None:
        yield Finding("contract", f"fits {listed(own.contract.names) or 'target and rows'}")
    elif own.file.table.names is not None:
        yield Finding(
            "contract",
            f"none in the federation file, so files are compared when sites meet; this one has "
            f"{listed(own.file.table.names)} (to compare now: `glmesh federation init --like FILE` of one site)",
        )
    else:
        yield Finding("contract", "none, and the file has no header: columns go by position", "warning")
    found, offers = warnings_of(own.file), {site.file.name: own.file.offer}
    found += [*own.fitted.remarks(), *scale_warnings(site.file.name, offers, own.contract)]
    if not site.federation.problem.by_totals:
        found += gossip_warnings(offers, own.contract)
    for remark in found:
        yield Finding("columns", remark, "warning")


def _check_labels(table: DataTable, spec: ProblemSpec) -> None:
    """Raise Mismatch if the loss is one of classification and the table has more than two labels."""
    if spec.loss.classifies and len(table.labels) > 2:
        raise Mismatch(
            f"{table.where}: the target {table.target or ''!r} has the labels {spoken(table.labels)}, and the "
            f"{spec.loss.name} loss needs two; code them as two, or name another target in the node file"
        )


def _state(store: Store) -> str:
    """Return a sentence on whether the node will go on from a checkpoint in its folder.

    Raise InvalidInput if the checkpoint is not this node's.
    """
    saved = store.load()
    return "no checkpoint: a new run begins" if saved is None else f"goes on from {store.path}"


def _alone(own: DataSummary) -> DataSummary:
    """Return a site's data summary, with two labels if it has only one: another site may have the second."""
    return replace(own, y_min=own.y_min - 1.0) if own.y_min == own.y_max else own


def _certificates(site: Site) -> Iterator[Finding]:
    """Yield two Findings: until when the certificates of the node and of the authority are valid."""
    now = datetime.datetime.now(datetime.UTC)
    for what, content in (("certificate", site.identity.certificate), ("authority", site.identity.ca)):
        end = expiry(content)
        days = (end - now).days
        level = "error" if end <= now else "warning" if days < _SOON else "ok"
        yield Finding(what, f"{'expired on' if end <= now else 'good until'} {end:%Y-%m-%d}", level)


def _tried(what: str, look: Callable[[], str]) -> Finding:
    """Return a Finding on the check `what`, with the text that `look` returns.

    If `look` raises an error, the Finding is one at level "error", with the text of that.
    """
    try:
        return Finding(what, look())
    except ConnectionRefusedError:
        return Finding(what, "nobody listens there yet; nodes may start in any order", "warning")
    except (GlmeshError, OSError) as error:
        return Finding(what, str(error), "error")


def _reach(address: str, site: Site, name: str, listed: str) -> str:
    """Connect to neighbour `name` and check that its certificate has the fingerprint `listed`.

    Return words with the milliseconds that this took; raise an error if it cannot be reached, or shows another
    certificate.
    """
    began = time.monotonic()
    listed_certificate(address, site, name, listed)
    return f"reached at {address} in {1000 * (time.monotonic() - began):.0f} ms, with the certificate that is listed"
