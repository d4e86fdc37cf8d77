"""What people see of a fit: verdict in words, largest coefficients by name, cost and proof, as text and as HTML.

Everything is made from names and numbers that are given; runs, methods, rows and matplotlib stay out.
"""

from glmesh.display.curve import Curve
from glmesh.display.overview import Overview, table_of
from glmesh.display.words import bound_in_words

__all__ = ["Curve", "Overview", "bound_in_words", "table_of"]
