"""Formulas such as `y ~ age + C(sex)`: columns of a design, by name, from tables with texts and gaps.

| module        | holds                                                                          |
|---------------|--------------------------------------------------------------------------------|
| `frames`      | columns by name, numbers or texts, of a data file or a data frame              |
| `expressions` | one factor of a term, such as `log(age)` or `C(sex)`: parsed, checked, computed |
| `moments`     | mean and sum of squares of all rows, for `center(x)` and `standardize(x)`      |
| `splines`     | bases of splines with given knots                                              |
| `coding`      | which contrasts the terms need, and in which order the columns stand           |
| `formula`     | a formula as text becomes response and terms, by the parser of formulaic       |
| `design`      | what all sites agree on: terms, kinds, levels, references; it makes the columns |
| `levels`      | the levels of all tables, and what becomes of rare ones                        |

Only `formula` needs formulaic; a design that was made applies without it. No text of a formula is ever executed: it is
parsed, compared with a list of what is allowed, and computed by the functions here. Problems, files and messages may
not enter.
"""

from glmesh.formulas.design import Design, Variable
from glmesh.formulas.formula import Formula
from glmesh.formulas.frames import Frame
from glmesh.formulas.levels import OTHERS, RARE, Levels, design_of
from glmesh.formulas.moments import Moments

__all__ = ["OTHERS", "RARE", "Design", "Formula", "Frame", "Levels", "Moments", "Variable", "design_of"]
