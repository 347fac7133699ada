"""Leaps: the energy of a path without snaps is that of the cubic through its ends, and a snap is told from it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import geosim
from geosim import EnergyShapeSolver, Inflation, generate
from geosim.shape.energy.contact.potential import ContactPotential
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.minimise import Minimisation
from geosim.shape.energy.path.leaps import Leaps, PathEnd, is_path
from geosim.shape.energy.path.loading import Loading
from geosim.shape.energy.states.configuration import ArcLengthConstraint


def _end(share: float, snapped: float = 0.0) -> PathEnd:
    """Return an end of the path g = s + 0.4 s^2; a snap before it has added to g and lost that much energy."""
    point = SimpleNamespace(load_factor=share)
    energy = -(share**2) / 2.0 - 0.4 * share**3 / 3.0 - snapped * share
    return PathEnd(SimpleNamespace(point=point), energy, share + 0.4 * share**2 + snapped, 1.0 + 0.8 * share)


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (0.0, 0.3), (0.5, 1.0)])
def test_a_smooth_path_is_one(a, b):
    assert is_path(_end(0.0), _end(a), _end(b))


@pytest.mark.parametrize("snapped", [1.0, 3.0])
def test_a_snap_is_none(snapped):
    assert not is_path(_end(0.0), _end(0.0), _end(1.0, snapped))
    assert not is_path(_end(0.0), _end(0.4), _end(0.6, snapped))


def test_a_crease_that_snaps_late_does_not_end_a_leap():
    assert is_path(_end(0.0), _end(0.9), _end(1.0, 0.05))


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_the_slope_of_a_path_is_that_of_its_values(element):
    """Potential, conjugate work and slope of a blown finger against differences of neighbouring equilibria."""
    robot = generate.pneunet(chambers=1, wall=2e-3).robot("ecoflex-00-30-fang2022", max_edge=9e-3)
    solver, command = EnergyShapeSolver(element=element, tolerance=1e-8), Inflation(pressure=[4e3]).command(0)
    state = solver.start(robot, geosim.Environment(self_contact=False))
    end = solver.target(state.problem, state, command)
    origin, newton = solver.origin(state, end, command), solver._newton
    leaps = Leaps(newton, state.problem, origin, end, state.contact_state, Budget())
    step, ends = 0.02, []
    for share in (0.6 - step, 0.6, 0.6 + step):
        aim = ArcLengthConstraint(origin, end, share, state.contact_state)
        found = Minimisation(newton, state.problem, aim, Budget()).run(state.point)
        assert found.status is geosim.Status.CONVERGED
        ends.append(leaps.at_end(found))
    low, middle, high = ends
    assert middle.slope == pytest.approx((high.conjugate - low.conjugate) / (2.0 * step), rel=1e-3)
    assert -middle.conjugate == pytest.approx((high.potential - low.potential) / (2.0 * step), rel=1e-4)


@pytest.mark.slow
def test_leaps_begin_where_newton_meets_contact(monkeypatch):
    """A PneuNet whose walls vacuum closes: where Newton goes on in contact it takes more iterations to the same state."""
    robot = generate.pneunet(chambers=3, wall=2.44e-3).robot("ecoflex-00-30-fang2022", max_edge=7e-3)

    def solved() -> geosim.Result:
        return geosim.solve(robot, Inflation(pressure=[-17e3]), solver=EnergyShapeSolver())

    early = solved()
    monkeypatch.setattr(Loading, "sucks", False)
    late = solved()
    counts = [sum("iteration" in record for record in result.trace) for result in (early, late)]
    lost = [sum("discarded" in record for record in result.trace) for result in (early, late)]
    assert counts[0] < 0.8 * counts[1]
    assert lost[0] < 0.15 * counts[0]
    assert lost[1] > 0.15 * counts[1]
    np.testing.assert_allclose(early.frames[-1], late.frames[-1], atol=1e-5 * robot.size)


def test_iterations_of_an_attempt_that_is_thrown_away_are_marked():
    budget = Budget()
    for _ in range(4):
        budget.tell({"share": 0.0, "residual": 1.0, "contacts": 0})
    budget.discard(1, 3)
    assert ["discarded" in record for record in budget.records] == [False, True, True, False]


def test_the_negative_parts_of_pairs_are_those_of_their_matrices():
    """Random symmetric matrices that no translation of the four points meets, against their own eigenvectors."""
    rng, count = np.random.default_rng(0), 50
    fixed = np.kron(np.eye(4) - 0.25, np.eye(3))
    matrices = rng.normal(size=(count, 12, 12))
    matrices = fixed @ (matrices + matrices.transpose(0, 2, 1)) @ fixed
    blocks, points = matrices.reshape(count, 4, 3, 4, 3).transpose(0, 1, 3, 2, 4), np.arange(4 * count).reshape(-1, 4)
    stiff, bends = ((points, 0.4 * blocks),), ((points, 0.6 * blocks),)
    forces = SimpleNamespace(pairs=points, pair_pressure=np.ones(count), stiff=stiff, bends=bends)
    groups, negative = ContactPotential.negative_parts(forces)[0]
    values, vectors = np.linalg.eigh(matrices)
    asked = np.einsum("kia,ka,kja->kij", vectors, np.maximum(-values, 0.0), vectors)
    np.testing.assert_array_equal(groups, points)
    np.testing.assert_allclose(negative.transpose(0, 1, 3, 2, 4).reshape(count, 12, 12), asked, atol=1e-12)
