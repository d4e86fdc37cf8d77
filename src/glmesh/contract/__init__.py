"""What sites must agree on about their data before any work, names, kinds and labels, and how a table is fitted to it.

Nothing here reads files or sends messages: `files` makes a `DataTable`, this package compares it with a `Contract` and
puts its columns in order, and `federation` carries contracts between sites. Problems and methods may not enter.
"""

from glmesh.contract.agreement import ContractVerdict, agree
from glmesh.contract.contract import KINDS, MISSING, Column, Contract
from glmesh.contract.fitting import Fitted, fit, fit_features
from glmesh.contract.table import DataTable, TextColumn

__all__ = [
    "KINDS",
    "MISSING",
    "Column",
    "Contract",
    "ContractVerdict",
    "DataTable",
    "Fitted",
    "TextColumn",
    "agree",
    "fit",
    "fit_features",
]
