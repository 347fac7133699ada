"""One small robot and one reduced model for all tests of bridges."""

from __future__ import annotations

import pytest

import geosim
from geosim import EnergyShapeSolver, generate

QUICK = EnergyShapeSolver(element="p1", check_stability=False)


@pytest.fixture(scope="session")
def finger():
    """104 tets, a cable."""
    return generate.tendon_finger(joints=1, length=40e-3).robot("ecoflex-00-30-fang2022", max_edge=20e-3)


@pytest.fixture(scope="session")
def model(finger):
    return geosim.reduce(finger, (0.02, 0.12), "cable_tension", solver=QUICK)
