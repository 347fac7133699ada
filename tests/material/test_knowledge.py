"""What is known of a product before a batch of it is tested."""

from __future__ import annotations

import math

import numpy as np
import pytest

from geosim import materials
from geosim.errors import InputError


def test_one_number_and_its_scatter_become_an_interval():
    known = materials.knowledge("ecoflex-00-30")
    logs = np.log([m for m, _ in known.sources])
    assert len(logs) == 4
    assert known.median == pytest.approx(math.exp(logs.mean()), rel=1e-12)
    low, high = known.interval()
    assert low * high == pytest.approx(known.median**2, rel=1e-12)
    assert high / known.median == pytest.approx(math.exp(1.959964 * known.spread), rel=1e-6)
    assert all(low < m < high for m, _ in known.sources)
    assert materials.knowledge("ecoflex-00-30-fang2022") == known


def test_a_source_left_out_is_no_source():
    whole, part = (materials.knowledge("dragon-skin-20", *w) for w in ((), ("Marechal",)))
    assert (len(whole.sources), len(part.sources)) == (2, 1)
    assert part.sources[0] == whole.sources[1]
    with pytest.raises(InputError, match="no source"):
        materials.knowledge("rtv615", "Marechal")


def test_a_test_narrows_and_a_name_never_seen_says_so():
    known = materials.knowledge("solaris")
    narrowed = known.narrowed(60e3, 0.05)
    assert narrowed.spread == pytest.approx((0.05**-2 + known.spread**-2) ** -0.5, rel=1e-12)
    assert narrowed.median == pytest.approx(60e3, rel=0.01)
    unknown = materials.knowledge("jelly")
    assert unknown.sources == ()
    assert "no preset" in unknown.note
    assert unknown.spread > known.spread
    with pytest.raises(InputError, match="modulus"):
        known.narrowed(-1.0, 0.1)


def test_products_of_data_sheets():
    """mu = stress at stretch 2 / (2 - 1/4); psi = 6894.757 Pa."""
    for name, psi in (("mold-star-15", 55), ("mold-star-30", 96), ("solaris", 25), ("smooth-sil-950", 272)):
        assert materials.get(name).shear_modulus == pytest.approx(psi * 6894.757 / 1.75, rel=1e-3)
    assert math.isnan(materials.get("elastosil-m-4601").scatter)
    assert materials.get("dragon-skin-fx-pro").scatter > 0.5
