"""The certificate in standard errors is never wrong, on nearly collinear, rare, wildly scaled and weighted data."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cases import SOAK, cases
from tests.methods.totals.likelihood.soaks import LOSSES, claims


@pytest.mark.parametrize("name", LOSSES)
def test_no_claim_of_a_certificate_is_wrong(name, record_property):
    found = claims(name, range(cases(2000) if SOAK else 12))
    assert not found.wrong
    assert found.checked > 0.8 * found.n
    record_property("problems, certificates checked", f"{found.n}, {found.checked}")
    if found.tightness:
        median, most = np.percentile(found.tightness, [50, 95])
        record_property("claimed distance / true one, median and 95 %", f"{median:.6f}, {most:.3g}")
