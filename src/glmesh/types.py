"""Array types that all packages share; a name says the dtype, a comment or a docstring the shape."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int16]
Unsigned = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.float64] | npt.NDArray[np.str_]  # targets as a file has them: numbers or texts
Array = npt.NDArray[np.generic]  # of any dtype and shape, as files and data frames hold them
Flags = npt.NDArray[np.bool_]
Data = npt.ArrayLike | sp.sparray | sp.spmatrix  # samples or a matrix as users have them: arrays, data frames, sparse
SampleMatrix = Matrix | sp.csr_array  # (m, p) samples that were read from a file or checked
Tree = dict[str, Any]  # plain data that files hold: texts, numbers, arrays, None, and lists and dicts of them
