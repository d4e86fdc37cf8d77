"""`glmesh federation init|add|check FILE`: the file that all members of a federation share."""

import secrets
from argparse import Namespace
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from glmesh.cli.families import add_cluster_option, add_family_options, add_survival_options, check_family_options
from glmesh.cli.like import contract_like
from glmesh.cli.models import MODELS, loss_text, parse_family
from glmesh.cli.options import REACHED, Parser, changed, number, whole
from glmesh.cli.output import rows
from glmesh.contract.fitting import listed
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.files.archive import write_text
from glmesh.formulas import RARE, Formula
from glmesh.functions import Cox, Softmax
from glmesh.network import topology

if TYPE_CHECKING:
    from glmesh.contract import Contract
    from glmesh.federation.config import Federation, ProblemPart

MULTINOMIAL, COX = Softmax.name, Cox.name
HELP = "write and check the file that all nodes of a federation share"
_PORT = 7001  # [port] of the first member on loopback; further members count upwards


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh federation`, with its three steps, to its parser."""
    parser.describe(
        "A federation file says what is solved, who takes part (by the fingerprint of a certificate) and who talks to "
        "whom. Every member needs the same one; nodes compare it key by key when they meet.",
        "glmesh federation init fed.toml --model logistic --alpha 1 --like alice.csv",
        "glmesh federation add fed.toml alice=alice.csv bob=bob.csv carol=carol.csv",
        "glmesh federation add fed.toml dave=dave.csv --address dave.example:7001 --late",
        "glmesh federation check fed.toml",
    )
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True, title="steps", parser_class=Parser)
    _add_init(steps.add_parser("init", help="begin a file"))
    _add_add(steps.add_parser("add", help="add members, and write their node files"))
    check = steps.add_parser("check", help="look whether it can run")
    check.describe(
        "Check a federation file, and print its problem, its members and how fast its network mixes.",
        "glmesh federation check fed.toml",
    )
    check.add_argument("file", metavar="FILE", help="the federation file")


def _add_init(init: Parser) -> None:
    """Add the options and the help text of `glmesh federation init` to its parser."""
    init.describe(
        "Write a federation file that has no members yet; `glmesh federation add` adds them.",
        "glmesh federation init fed.toml --model logistic --alpha 1 --like alice.csv",
        "glmesh federation init fed.toml --family poisson --exposure years --like alice.csv --target claims",
        "glmesh federation init fed.toml --model lasso --split features --like alice.csv",
        "glmesh federation init fed.toml --model ridge --alpha 0 --formula 'dose ~ age + C(ward)' --like alice.csv",
    )
    init.add_argument("file", metavar="FILE", help="the federation file to write")
    _add_objective(init)
    _add_rows(init)
    _add_training(init)


def _add_objective(init: Parser) -> None:
    """Add the options of the objective: loss or family, penalty and its weight, split, method, intercept."""
    add = init.add_argument
    add("--model", choices=list(MODELS), metavar="NAME", help=f"one of {', '.join(MODELS)} (default logistic)")
    add_family_options(add, others=(MULTINOMIAL, COX))
    add_survival_options(add)
    add_cluster_option(add, ": those of a site that have the same label there, which never leaves it")
    add("--penalty", choices=["l2", "l1", "elasticnet"], help="instead of the model's own")
    add("--alpha", type=number(), metavar="A", help="weight of the penalty (default 1, with --family 0; not "
        "with --cv)")  # fmt: skip
    add("--cv", type=whole(2), nargs="?", const=5, default=0, metavar="F", help="with totals, choose alpha by so many "
        "folds inside each site (5 if no number is given)")  # fmt: skip
    add("--choose", choices=["minimum", "one_standard_error"], default="minimum", help="with --cv, the alpha with the "
        "least loss of held-out rows (default), or the largest within one standard error of it")  # fmt: skip
    add("--alphas", type=number(positive=True), nargs="+", default=[], metavar="A", help="with --cv, the weights to "
        "try (default: 20 that are computed)")  # fmt: skip
    add("--l1-ratio", type=number(0, 1), default=0.5, metavar="R", help="share of L1 in elasticnet (default 0.5)")
    add("--split", choices=["samples", "features"], default="samples", help="what a site holds: some samples "
        "(default), or some columns of all samples")  # fmt: skip
    add("--method", choices=["totals", "gossip"], help="how sites learn: from sums that are masked (default split "
        "by samples, and by features where that is cheaper), or by gossip with their neighbours")  # fmt: skip
    intercept = init.add_mutually_exclusive_group()
    intercept.add_argument(
        "--intercept", action="store_true", default=None, help="fit an unpenalised intercept (default with totals)"
    )
    intercept.add_argument("--no-intercept", dest="intercept", action="store_false", help="fit no intercept "
        "(default with gossip)")  # fmt: skip


def _add_rows(init: Parser) -> None:
    """Add the options on columns and rows of sites: the formula, rare levels, missing values, the contract."""
    add = init.add_argument
    add("--rare", choices=["refuse", "drop"], default="refuse", help="with totals, a column of 0 and 1 of which "
        "one is in fewer than five rows: refuse to train (default), or train without the column")  # fmt: skip
    add("--formula", metavar="TEXT", help="response and terms, as in 'ill ~ age + C(ward)', instead of all columns "
        "(docs/estimators.md); it says whether there is an intercept")  # fmt: skip
    add("--levels", action="store_true", help="write the levels of the --like file's categories into the federation "
        "file, for all to read; without them sites agree on levels by masked counts")  # fmt: skip
    add("--rare-levels", choices=RARE, default="refuse", help="with --formula, levels with fewer than five rows over "
        "all sites: refuse to train (default), merge them into one, or drop their rows")  # fmt: skip
    add("--missing", choices=["drop", "refuse"], help="with totals, rows that lack a value in a column that is used: "
        "leave them out and count them (default with --formula), or refuse the site (default otherwise)")  # fmt: skip
    add("--reveal-sites", action="store_true", help="with --formula, allow columns such as C(site), through which all "
        "members learn the sums over one site's rows")  # fmt: skip
    add("--aligned", action="store_true", help="split by features: rows have no names, and stand in the same "
        "order at all sites")  # fmt: skip
    add("--like", metavar="FILE", help="a data file of one site: all others must have its columns, by name and kind, "
        "and its labels")  # fmt: skip
    add("--target", metavar="COLUMN", help="column of the --like file that holds y (default: the last)")
    add("--ids", metavar="COLUMN", help="column of the --like file with the names of the rows")
    add("--sample-weight", metavar="COLUMN", help="column of the --like file with the sample weights")
    init.add_index_base("index of the first column of svmlight text, in --like and at all sites (default auto: 1, or 0 "
        "if the file uses a 0)")  # fmt: skip


def _add_training(init: Parser) -> None:
    """Add the options of a run: when it ends, who talks to whom, what becomes of sites that stay away."""
    add = init.add_argument
    add("--tol", type=number(positive=True), default=1e-6, metavar="T", help="relative gap to be proven (default 1e-6)")
    add("--max-rounds", type=whole(1), default=100_000, metavar="N", help="give up after so many (default 100000)")
    add(
        "--topology",
        default="ring",
        metavar="NAME",
        help="who talks to whom, over the members in their order (default ring)",
    )
    add("--wire", choices=["float64", "float32"], default="float64", help="precision of the numbers in "
        "messages: float32 halves the bytes, and leaves about six digits (default float64)")  # fmt: skip
    add("--gone-after", type=number(positive=True), default=600.0, metavar="SECONDS", help="time without a "
        "message after which a site is given up (default 600)")  # fmt: skip
    gone = (
        "what becomes of a site that is given up: with totals, wait for it all the same (default), or go on without "
        "its data; with gossip, freeze, which counts its last share (default by features), or reset, which drops it "
        "(default by samples)"
    )
    add("--gone", choices=["wait", "without", "freeze", "reset"], help=gone)
    add("--wait-at-most", type=number(), default=0.0, metavar="SECONDS", help="with totals, the time "
        "after which a node that waits for others ends (default 0: never)")  # fmt: skip
    add("--reveal", action="store_true", help="with totals, let two sites train, of which each learns what the "
        "other contributes")  # fmt: skip
    add("--refused", choices=["end", "without"], default="end", help="if the data of a site does not "
        "fit: end the run of all (default), or go on without that site")  # fmt: skip
    add("--meet-within", type=number(positive=True), default=600.0, metavar="SECONDS", help="time that "
        "sites wait for each other at the start (default 600)")  # fmt: skip


def _add_add(more: Parser) -> None:
    """Add the options and the help text of `glmesh federation add` to its parser."""
    more.describe(
        "Add members to a federation file, and write NAME.toml, the node file of each, beside it.",
        "glmesh federation add fed.toml alice=alice.csv bob=bob.csv",
        "glmesh federation add fed.toml dave=dave.csv --address dave.example:7001 --late",
    )
    add = more.add_argument
    add("file", metavar="FILE", help="the federation file")
    add("members", metavar="NAME=DATA", nargs="+", help="a member and its data file; NAME alone writes no node file")
    add(
        "--keys",
        default="keys",
        metavar="FOLDER",
        help="folder with NAME.crt and NAME.key (default: keys, beside FILE)",
    )
    add("--address", metavar="HOST:PORT", help="address of the member, if it is a single one (default: on loopback)")
    add(
        "--port",
        type=whole(1),
        default=_PORT,
        metavar="N",
        help="port of the first member on loopback; others count on from it (default 7001)",
    )
    add(
        "--target",
        metavar="COLUMN",
        help="column of the data that holds y (default: that of the contract, or the last)",
    )
    add("--ids", metavar="COLUMN", help="column of the data with the names of the rows")
    add("--sample-weight", metavar="COLUMN", help="column of the data with the sample weights")
    more.add_index_base("of svmlight text: index of the first column (default: that of the contract)")
    add("--late", action="store_true", help="the member may come late: the others do not wait for it")


def needs_peers() -> None:
    """Raise InvalidInput, which says what to install, if packages of the extra `peers` are missing."""
    modules = {"grpcio": "grpc", "cryptography": "cryptography", "tomli-w": "tomli_w"}
    missing = [name for name, module in modules.items() if not find_spec(module)]
    if missing:
        raise InvalidInput(f"this needs {' and '.join(missing)}; pip install 'glmesh[peers]'")


def run(options: Namespace) -> int:
    """Do the step `init`, `add` or `check` of `glmesh federation`; return the exit code."""
    needs_peers()
    return {"init": _init, "add": _add, "check": _check}[options.step](options)


def _init(options: Namespace) -> int:
    """Write a new federation file without members; return the exit code."""
    from glmesh.federation.config import LINKS, Federation, NetworkPart

    path = Path(options.file)
    if path.exists():
        raise InvalidInput(f"{path} is there already; remove it first, or use another name")
    problem = _problem_part(options)
    if options.topology != LINKS:
        topology.check_name(options.topology)
    network = NetworkPart(
        topology=options.topology,
        wire=options.wire,
        gone_after=options.gone_after,
        gone=options.gone or "",
        wait_at_most=options.wait_at_most,
        reveal=options.reveal,
        refused=options.refused,
        meet_within=options.meet_within,
        salt=secrets.token_hex(16),
    )
    federation = Federation(path.stem, problem, network, (), contract_like(options, problem))
    if federation.by_columns:
        federation.check_columns()
    federation.write(path)
    _tell_new(path, federation)
    return REACHED


def _problem_part(options: Namespace) -> "ProblemPart":
    """Return the table [problem] of a new federation file.

    Raise InvalidInput or UnsuitablePair if the options do not go together.
    """
    from glmesh.federation.config import ProblemPart, check_folds
    from glmesh.federation.config.formulas import check_formula
    from glmesh.federation.node.forecast import method_for_columns

    options = _with_times(options)
    common = {
        **(_family_keys(options) if options.family else _loss_keys(options)),
        "l1_ratio": options.l1_ratio,
        "method": options.method or "",
        "rare": options.rare,
        "cv": options.cv,
        "choose": options.choose,
        "alphas": options.alphas,
        "tol": options.tol,
        "max_rounds": options.max_rounds,
        "formula": options.formula or "",
        "rare_levels": options.rare_levels,
        "missing": options.missing or "",
        "reveal_sites": options.reveal_sites,
    }
    if options.cv and options.alpha is not None:
        raise InvalidInput("--cv chooses alpha; leave --alpha out, or name weights to try with --alphas")
    problem = ProblemPart(**common, split=options.split, aligned=options.aligned)
    if options.split == "features" and options.method is None:
        method, why = method_for_columns(problem, options.topology, options.gone or "", options.refused)
        print(why, end="\n" if why else "")
        problem = replace(problem, method=method)
    problem = replace(problem, fit_intercept=_fits_intercept(options, problem))
    check_formula(problem, None)
    _check_gone(options.gone, by_totals=problem.by_totals)
    try:
        problem.model()
    except UnsuitablePair as error:
        raise UnsuitablePair(f"{str(error).rstrip('.')}{_other_split(problem)}") from None
    check_folds(problem)
    _check_split(options)
    return problem


def _with_times(options: Namespace) -> Namespace:
    """Return the options with the columns of times and events that the formula of a Cox model names."""
    if not options.formula or options.family != COX or options.time or options.event:
        return options
    time, event = Formula.parse(options.formula).survival or (None, None)
    return changed(options, time=time, event=event)


def _fits_intercept(options: Namespace, problem: "ProblemPart") -> bool:
    """Return whether the problem has an intercept: as its option says, else as the formula or the kind has it."""
    if options.intercept is not None:
        return bool(options.intercept)
    if options.formula and problem.family != COX:
        return Formula.parse(options.formula).has_intercept
    return problem.by_totals and problem.family != COX


def _check_split(options: Namespace) -> None:
    """Raise InvalidInput for --aligned or --gone freeze with the split that it does not go with."""
    if options.aligned and options.split != "features":
        raise InvalidInput("--aligned goes with --split features, where every site holds the same rows")
    if options.gone == "freeze" and options.split == "samples":
        raise InvalidInput(
            "--gone freeze leaves a site's sum over its rows with a neighbour, which can tell who is among them; "
            "split by samples write --gone reset"
        )


def _loss_keys(options: Namespace) -> dict[str, object]:
    """Return {key: value} of loss, penalty and alpha in [problem], for --model."""
    check_family_options(options, ("link", "offset", "exposure", "time", "event", "cluster"))
    loss, usual = MODELS[options.model or "logistic"]
    alpha = 1.0 if options.alpha is None else options.alpha
    return {"loss": loss, "penalty": options.penalty or usual, "alpha": alpha}


def _family_keys(options: Namespace) -> dict[str, object]:
    """Return {key: value} of the family, its parameters, penalty and alpha in [problem], for --family."""
    from glmesh.federation.config.families import PARAMETERS

    check_family_options(options, ())
    if options.model:
        raise InvalidInput("--model and --family exclude each other; --model NAME stands for a loss and a penalty")
    found: dict[str, object] = {"family": options.family, "link": options.link or ""}
    if options.family not in (MULTINOMIAL, COX):
        family = parse_family(options.family, options.link)
        key = PARAMETERS.get(family.name)
        found = {"family": family.name, "link": family.link if options.link else ""}
        given = None if key is None else getattr(family, key)
        found |= {"estimate_theta": True} if family.has_unknown_shape else {} if key is None else {key: given}
    found |= {name: getattr(options, name) or "" for name in ("offset", "exposure", "time", "event", "cluster")}
    alpha = 0.0 if options.alpha is None else options.alpha
    return found | {"penalty": options.penalty or "l2", "alpha": alpha, "tol_se": options.tol_se}


def _model_text(problem: "ProblemPart") -> str:
    """Return words on the loss, or the family with its link and parameters, and on the penalty of a problem."""
    if not problem.family:
        return f"{problem.loss} loss, {problem.penalty} penalty"
    loss = problem.model().loss
    name = loss.name if problem.family == MULTINOMIAL else loss_text(loss)
    return f"{name} family, {f'{problem.penalty} penalty' if problem.alpha else 'no penalty'}"


def _tell_new(path: Path, federation: "Federation") -> None:
    """Print what the new federation file at `path` says, what sites learn of each other, and what comes next."""
    problem = federation.problem
    held = "rows" if problem.split == "samples" else "columns of the same rows"
    print(f"{path}: {_model_text(problem)}, split by {problem.split} (a site holds {held})")
    by = "masked totals" if problem.by_totals else "gossip"
    print(f"{path}: {'a free' if problem.fit_intercept else 'no'} intercept, by {by}")
    if problem.cv:
        print(f"{path}: alpha is chosen by {_folds_text(problem)}")
    if problem.formula:
        print(f"{path}: {problem.formula}; {_formula_text(problem)}")
    if problem.cluster:
        print(f"{path}: {_cluster_text(problem)}")
    print(federation.disclosure)
    print("now add members")


def _check_gone(gone: str | None, *, by_totals: bool) -> None:
    """Raise InvalidInput, which says what would do, if the value of --gone does not go with the federation's method.

    `gone` says what becomes of sites that never return, None if not given; `by_totals`: the sites learn from totals,
    not by gossip. Each has words of its own for it.
    """
    if by_totals and gone in ("freeze", "reset"):
        raise InvalidInput(f"--gone {gone} is for gossip; with totals write --gone wait, or --gone without")
    if not by_totals and gone in ("wait", "without"):
        raise InvalidInput(f"--gone {gone} is for totals; with gossip write --gone freeze, or --gone reset")


def _other_split(problem: "ProblemPart") -> str:
    """Return words that advise the other split (by samples, by features) if it suits the problem; "" if it does not."""
    other = "features" if problem.split == "samples" else "samples"
    try:
        replace(problem, split=other).model()
    except (InvalidInput, UnsuitablePair):
        return ""
    held = "other columns of the same rows" if other == "features" else "other rows with the same columns"
    return f"; --split {other} can do it, and means that every site holds {held}"


def _add(options: Namespace) -> int:
    """Add members to a federation file, and write the node files of those with data; return the exit code."""
    import tomli_w

    from glmesh.federation.config import Federation, Member, check_name, fingerprint

    path = Path(options.file)
    federation = Federation.read(path)
    if options.address and len(options.members) > 1:
        raise InvalidInput("--address is that of a single member; add them one by one")
    members, files = list(federation.members), []
    for entry in options.members:
        name, _, data = entry.partition("=")
        check_name(name)
        if any(member.name == name for member in members):
            raise InvalidInput(f"{name} is a member already")
        certificate = path.parent / options.keys / f"{name}.crt"
        if not certificate.is_file():
            raise InvalidInput(f"{certificate}: no such file; `glmesh keys {options.keys} {name}` makes it")
        address = options.address or f"127.0.0.1:{options.port + len(members)}"
        if data:
            files.append((path.parent / f"{name}.toml", _node_file(options, name, data)))
        members.append(Member(name, address, fingerprint(certificate.read_bytes()), options.late))
    for file, _ in files:
        if file.exists():
            raise InvalidInput(f"{file} is there already; remove it first")
    replace(federation, members=tuple(members)).write(path)
    for file, tree in files:
        write_text(file, tomli_w.dumps(tree))
    print(f"{path}: {len(members)} members" + "".join(f"\n{file}" for file, _ in files))
    return REACHED


def _node_file(options: Namespace, name: str, data: str) -> dict[str, str | int]:
    """Return {key: value} of the node file of member `name`, whose table is `data`, without keys that have no value."""
    entries = {
        "name": name,
        "federation": Path(options.file).name,
        "data": data,
        "target": options.target,
        "ids": options.ids,
        "sample_weight": options.sample_weight,
        "index_base": None if options.index_base == "auto" else options.index_base,
        "certificate": f"{options.keys}/{name}.crt",
        "key": f"{options.keys}/{name}.key",
        "ca": f"{options.keys}/ca.crt",
        "state": f"{name}.state",
    }
    return {key: value for key, value in entries.items() if value not in (None, "")}


def _check(options: Namespace) -> int:
    """Check a federation file and print its problem, members and network; return the exit code."""
    from glmesh.federation.config import Federation

    federation = Federation.read(options.file)
    federation.check()
    part, mixing = federation.problem, federation.mixing
    alpha = f"chosen by {_folds_text(part)}" if part.cv else f"{part.alpha:g}"
    penalty = _model_text(part) if part.is_unpenalised else f"{_model_text(part)}, alpha {alpha}"
    to = f"{part.tol_se:g} standard errors" if part.is_unpenalised else f"{part.tol:g}"
    print(
        rows(
            [
                ("problem", f"{penalty}, split by {part.split}, to {to}"),
                *([("clusters", _cluster_text(part))] if part.cluster else []),
                *([("formula", f"{part.formula}; {_formula_text(part)}")] if part.formula else []),
                ("data", "sites agree when they meet" if federation.data is None else _data_text(federation.data)),
                ("members", ", ".join(f"{m.name}{' (late)' if m.late else ''}" for m in federation.members)),
                ("topology", f"{federation.network.topology}, diameter {topology.diameter(mixing.matrix)}"),
                ("spectral gap", f"{1 - mixing.lambda2:.4f}"),
            ]
        )
    )
    return REACHED


def _formula_text(part: "ProblemPart") -> str:
    """Return words on what the file says of rare levels and of missing values."""
    done = {"refuse": "are refused", "merge": "are merged", "drop": "are left out with their rows"}[part.rare_levels]
    return f"rare levels {done}, rows with missing values are {'left out' if part.drops_gaps else 'refused'}"


def _cluster_text(part: "ProblemPart") -> str:
    """Return words on what the file says of clusters."""
    return (
        f"rows with the same label in {part.cluster} at one site are a cluster; the same label at two sites means two "
        "clusters"
    )


def _folds_text(part: "ProblemPart") -> str:
    """Return words on how folds choose alpha: "5 folds inside each site (minimum)"."""
    return f"{part.cv} folds inside each site ({part.choose})"


def _data_text(contract: "Contract") -> str:
    """Return words for people on the contract of a federation file: its target and its columns."""
    return f"target {contract.target or 'in the last column'}, {listed(contract.names) or 'columns of each site'}"
