"""The options of `glmesh train`, and the help that teaches them."""

import argparse

from glmesh.cli.failures import CHECKPOINT, EVERY
from glmesh.cli.families import add_cluster_option, add_family_options, add_survival_options
from glmesh.cli.models import MODELS
from glmesh.cli.options import Parser, add_network, number, whole
from glmesh.functions import Cox

# [rounds] between looks at the gap: measuring it costs as much as a few rounds, unless it comes with a total
RECORD_EVERY = {"features": 10, "samples": 1}

_DESCRIPTION = """\
Spread a data file over the nodes of a simulated network, fit a linear model there, and save it. Nodes keep their \
data and talk to their neighbours only.

What is minimised is a plain sum; nothing is divided by the number of samples:

    sum_i loss(y_i, x_i.w + b)
    + alpha * (l1_ratio * |w|_1 + (1 - l1_ratio)/2 * |w|^2)

where the squared loss is half the square, and L1 and L2 are l1_ratio 1 and 0. (To get scikit-learn's Lasso with its \
alpha, multiply that alpha by the number of samples; for its C, use alpha = 1/C.) Two labels make a classification; \
the larger is the positive class. The run stops when the objective is proven to be within the relative gap \
TOL of the best.

DATA is svmlight text (.svm, .libsvm, ...), a table of numbers (.csv, .tsv, .parquet, .feather) or .npz with X and y; \
.gz, .bz2 and .xz of text will do too. Labels may be texts. The model keeps the names of the columns, so that `glmesh \
predict` finds them in any order."""

_AFTER = """\
exit codes:
    0  the tolerance was reached, or --stop rounds has done its rounds
    2  something is wrong with the options, the data or an output file
    3  out of rounds before the tolerance was reached; the model is saved anyway
  130  Ctrl-C; the model of the last complete round is saved"""


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh train` to its parser."""
    parser.describe(
        _DESCRIPTION,
        "glmesh train houses.csv --target price --model ridge --alpha 10 --intercept",
        "glmesh train rcv1.svm.xz --model lasso --alpha 5 --nodes 64 --topology torus",
        "glmesh train a9a.svm --model logistic --stop certificate --local-passes 5",
        "glmesh train claims.csv --target claims --family poisson --exposure years",
        "glmesh train patients.csv --formula 'ill ~ age + C(ward)' --family binomial",
        "glmesh train trial.csv --family cox --formula 'Surv(days, died) ~ arm'",
        "glmesh train load.npz --loss quantile=0.9 --latency 0.05 --history run.csv",
        "glmesh train a9a.svm --model logistic --faults plan.toml --checkpoint saved",
        "mpiexec -n 4 glmesh train big.svm --model svm --runtime mpi --checkpoint saved",
        after=f"models, as --loss and --penalty:\n{_models()}\n\n{_AFTER}",
        usage="glmesh train DATA (--model NAME | --loss NAME | --family NAME) [options]",
    )
    _add_data(parser)
    _add_what_to_fit(parser)
    _add_spreading(parser)
    _add_running(parser)
    _add_clock(parser)
    _add_failures(parser)
    _add_outputs(parser)


def _add_data(parser: Parser) -> None:
    """Add DATA, and the options that say how it is read."""
    add = parser.add_argument
    add("data", metavar="DATA", help="the file to learn from")
    add("--target", metavar="COLUMN", help="column of a table that holds y, by name or position (default: the last)")
    add("--sample-weight", metavar="COLUMN", help="column of a table with a factor >= 0 of each sample's loss")
    add("--ids", metavar="COLUMN", help="column of a table with the names of the rows, which is no feature")
    add("--missing", choices=("drop", "refuse"), help="rows that lack a value in a column that is used: leave them out "
        "and count them (default with --family or --formula), or refuse the file (default otherwise)")  # fmt: skip
    parser.add_text_options()


def _add_what_to_fit(parser: Parser) -> None:
    """Add the options that name the objective: formula, loss or family, penalty, intercept."""
    add = parser.add_argument_group("what to fit").add_argument
    add("--formula", metavar="TEXT", help="response and terms, as in 'ill ~ age + C(ward)', instead of all columns of "
        "a table: texts become columns per level, and the model file keeps how (docs/estimators.md); it says whether "
        "there is an intercept")  # fmt: skip
    add("--model", choices=MODELS, metavar="NAME", help=f"a loss with its penalty: {', '.join(MODELS)}")
    add("--loss", metavar="NAME", help="instead of --model: a loss alone, also with its parameter, as in huber=1.35, "
        "quantile=0.9 or epsilon_insensitive=0.1")  # fmt: skip
    add_family_options(add, others=(Cox.name,))
    add_survival_options(add)
    add("--strata", metavar="COLUMN", help="with --family cox, column whose values have baseline hazards of their own, "
        "such as the hospital: each is a node (default: one baseline hazard, and one node)")  # fmt: skip
    add_cluster_option(add)
    add(
        "--penalty",
        choices=("l1", "l2", "elasticnet"),
        help="the penalty, instead of the model's own (default l2 with --loss)",
    )
    add("--alpha", type=number(), help="weight of the penalty (default 1; with --family 0, which is none)")
    add("--l1-ratio", type=number(0, 1), metavar="R", help="share of L1 in elasticnet (default 0.5)")
    add("--intercept", action="store_true", help="fit an unpenalised intercept (with --stop certificate or "
        "--faults: split by features); --family has one by itself")  # fmt: skip
    add("--no-intercept", action="store_true", help="fit no intercept with --family")


def _add_spreading(parser: Parser) -> None:
    """Add the options that say how the data are spread over nodes, and who talks to whom."""
    spread = parser.add_argument_group("how to spread it")
    add_network(spread)
    add = spread.add_argument
    add("--split", choices=("features", "samples", "auto"), default="auto", help="what a node holds: some columns "
        "of all samples, or some samples; auto takes what is possible and whose messages should take less "
        "time, and says which; a split that you ask for is never changed")  # fmt: skip
    add("--topology", default="ring", metavar="NAME", help="who talks to whom: ring, torus, complete, ... "
        "(`glmesh topology list` shows all)")  # fmt: skip
    add("--partition", choices=("shuffled", "contiguous", "balanced"), default="shuffled",
        help="who gets what: at random, in order, or equal numbers of nonzeros (default shuffled)")  # fmt: skip


def _add_running(parser: Parser) -> None:
    """Add the options of the method: its acceleration and passes, when it stops, where it runs."""
    add = parser.add_argument_group("how to run").add_argument
    add("--acceleration", choices=("auto", "momentum", "sums", "newton", "none"), default="auto",
        help="momentum, exact sums or Newton's method (for networks that stand still), none (the published method), or "
        "whichever is best (default)")  # fmt: skip
    mixings = ("metropolis", "best-constant", "optimal")
    add("--mixing", choices=mixings, default="metropolis",
        help="how much nodes weigh what their neighbours say (default metropolis)")  # fmt: skip
    add("--weights", choices=mixings, help=argparse.SUPPRESS)  # the old name of --mixing
    add("--local-passes", type=whole(1), metavar="N", help="passes of a node over its data each round (default 2, or 1 "
        "without acceleration); acceleration needs an even number")  # fmt: skip
    add("--gossip-steps", type=whole(1), default=1, metavar="N", help="exchanges with the neighbours each round")
    add("--tol", type=number(), default=1e-4, help="gap divided by the objective at which to stop (default 1e-4)")
    add("--max-rounds", type=whole(0), default=10_000, metavar="N", help="give up after so many rounds (default 10000)")
    add("--stop", choices=("gap", "certificate", "rounds"), default="gap", help="gap: measured from above (default); "
        "certificate: the nodes find out by themselves, from neighbours; rounds: do all of --max-rounds")  # fmt: skip
    add("--record-every", type=whole(1), metavar="N",
        help="rounds between two looks at the gap, and lines of the history (default "
        f"{RECORD_EVERY['features']} split by features; 1 by samples, where a total brings the gap along)")  # fmt: skip
    add("--runtime", choices=("simulation", "mpi"), default="simulation", help="mpi: the nodes are hosted by the ranks "
        "of `mpiexec -n P glmesh train ...`, each of which reads its part of DATA only: plain svmlight text, or one "
        "file per rank with {rank} in its name (pip install 'glmesh[mpi]')")  # fmt: skip
    add(
        "--threads",
        type=whole(1),
        metavar="N",
        help="threads to compute with, on which the result does not depend (default: by the size of the data)",
    )


def _add_clock(parser: Parser) -> None:
    """Add the options of the network clock: latency and bandwidth."""
    add = parser.add_argument_group("a clock for the network (else seconds are those of this machine)").add_argument
    add(
        "--latency",
        type=number(),
        metavar="SECONDS",
        help="time from sending a message to its arrival (default 0.001 with --bandwidth)",
    )
    add("--bandwidth", type=number(positive=True), metavar="BYTES",
        help="bytes that a node can send in a second (default 125e6, a gigabit, with --latency)")  # fmt: skip


def _add_failures(parser: Parser) -> None:
    """Add the options for what fails, and for going on after a crash: fault plan and checkpoints."""
    add = parser.add_argument_group("when things fail").add_argument
    add("--faults", metavar="FILE", help="a .toml with the nodes, links and messages that fail, and when")
    add("--checkpoint", metavar="DIR", help=f"a folder for {CHECKPOINT}, which holds the run so far; if it is there, "
        "the same command goes on from it, as if it had never stopped")  # fmt: skip
    add("--checkpoint-every", type=whole(1), metavar="N", help=f"rounds between two checkpoints (default {EVERY})")


def _add_outputs(parser: Parser) -> None:
    """Add the options that name the files to write, and --quiet."""
    add = parser.add_argument_group("what to write").add_argument
    add("--out", default="glmesh-model.npz", metavar="FILE", help="file for the model (default glmesh-model.npz)")
    add("--history", metavar="FILE", help="a .csv file for objective, gap, bytes, ... along the run")
    add("--plot", metavar="FILE", help="a picture of the convergence: .png, .pdf or .svg")
    add("--quiet", action="store_true", help="print nothing but errors")


def _models() -> str:
    """Return lines for the help: each name that --model knows, with its loss and penalty."""
    return "\n".join(f"  {name:<12} {loss}, {penalty}" for name, (loss, penalty) in MODELS.items())
