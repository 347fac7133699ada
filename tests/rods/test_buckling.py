"""Buckling of rods: Greenhill's column, Euler's column, and Michell's twisted ring."""

from __future__ import annotations

import numpy as np
import pytest

from geosim import Environment, LinearElastic, Load, Passive, solve
from geosim.linear.band import factor_band
from geosim.rods.balance import Balance
from geosim.rods.robot import RodShellRobot
from geosim.rods.stepper import RodShellStepper


def lowest_pivots(robot: RodShellRobot, environment: Environment, state) -> int:
    """Return the number of negative eigenvalues of the Hessian at a state (dense, written on its own)."""
    system = state.system
    balance = Balance(system, state, state.natural, state.external, 0.0)
    trial, _ = balance.residual(state.q)
    values, _ = balance.jacobian(state.q, trial)
    eigenvalues = np.linalg.eigvalsh(system.pattern.matrix(values).toarray())
    return int((eigenvalues < -1e-14 * eigenvalues.max()).sum())


def column(nodes: int, modulus: float, density: float) -> RodShellRobot:
    x = np.stack([np.zeros(nodes), np.zeros(nodes), np.linspace(0, 1, nodes)], axis=1)
    return RodShellRobot(
        x, radius=0.01, rod_material=LinearElastic(modulus, 0.5, density), fixed_vertices=[0, 1], fixed_edges=[0]
    )


def critical(unstable, low: float, high: float) -> float:
    """Return where a sign changes, by bisection."""
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if unstable(middle) else (middle, high)
    return 0.5 * (low + high)


def test_greenhill_column_buckles_under_its_own_weight():
    """rho A g L^3 / EI = 7.8373 for a clamped column, to 0.2 %.

    Vertices 0 and 1 clamp one edge, so the length is that of the column less half an edge.
    """
    nodes, density = 61, 1000.0
    stiffness = np.pi * 0.01**4 / 4
    weight = density * np.pi * 0.01**2 * 9.81

    def unstable(modulus: float) -> bool:
        robot = column(nodes, modulus, density)
        environment = Environment(gravity=(0, 0, -9.81))
        solver = RodShellStepper(static=True, tolerance=1e-9)
        state = solver.start(robot, environment)
        # the straight column, compressed by its weight, is an equilibrium: hold it on its axis to reach it
        held = np.zeros((nodes, 3), dtype=bool)
        held[:, :2] = True
        straight = RodShellRobot(
            robot.vertices,
            radius=0.01,
            rod_material=robot.rod_material,
            fixed_vertices=[0, 1],
            fixed_edges=[0],
            fixed_components=held,
        )
        q = solve(straight, Passive(), environment, solver=solver).state.q
        state = type(state)(**{**vars(state), "q": q, "external": state.system.weight})
        return lowest_pivots(robot, environment, state) > 0

    low, high = 0.5 * weight / (7.8373 * stiffness), 2.0 * weight / (7.8373 * stiffness)
    modulus = critical(lambda inverse: unstable(1.0 / inverse), 1.0 / high, 1.0 / low)
    number = weight * modulus / stiffness  # the modulus here is 1 / E
    assert number * (1 - 0.5 / (nodes - 1)) ** 3 == pytest.approx(7.8373, rel=2e-3)


def test_a_column_just_above_the_load_of_greenhill_leans_over_and_is_found_stable():
    robot = column(41, 0.5 * 1000.0 * np.pi * 0.01**2 * 9.81 / (7.8373 * np.pi * 0.01**4 / 4), 1000.0)
    nudge = Environment(gravity=(0, 0, -9.81), loads=[Load.force([40], (1e-4, 0, 0))])
    result = solve(robot, Passive(), nudge, solver=RodShellStepper(static=True))
    assert result.frames[-1, 40, 2] < 0.5
    assert result.stable[-1] == 1


def ring(nodes: int, modulus: float, ratio: float, twist: float):
    """Return a closed naturally straight ring of radius 1 with a total twist [rad], and its state.

    `ratio` = GJ / EI. The twist is the natural twist taken out of the ring: the ring stays round, every stencil has the
    same moments.
    """
    angle = 2 * np.pi * np.arange(nodes) / nodes
    x = np.stack([np.cos(angle), np.sin(angle), np.zeros(nodes)], axis=1)
    edges = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], axis=1)
    material = LinearElastic(modulus, 0.5, 1000.0)
    stiffness = modulus * np.pi * 0.01**4 / 4
    robot = RodShellRobot(x, edges, radius=0.01, rod_material=material, twist_stiffness=ratio * stiffness)
    state = RodShellStepper(static=True).start(robot)
    natural = state.natural.copy()
    natural[:, :2] = 0.0
    natural[:, 2] = state.strains()[:, 2] - twist / nodes
    return robot, type(state)(**{**vars(state), "natural": natural})


def negative_modes(state) -> int:
    """Count negative eigenvalues of a free body (its rigid motions are zero)."""
    system = state.system
    balance = Balance(system, state, state.natural, np.zeros(system.dofs), 0.0)
    trial, _ = balance.residual(state.q)
    values, _ = balance.jacobian(state.q, trial)
    matrix = system.pattern.matrix(values).toarray()
    eigenvalues = np.linalg.eigvalsh(matrix)
    # bending modes of the ring scale with EI; round-off of the stretching stiffness is far below
    return int((eigenvalues < -1e-4 * float(system.bending[0, 0])).sum())


@pytest.mark.parametrize("ratio", [1.0, 0.7, 1.5])
def test_michell_ring_writhes_at_two_pi_root_three_over_the_stiffness_ratio(ratio):
    """Critical twist 2 pi sqrt(3) EI / GJ of a closed, naturally straight ring (Michell 1889, Zajac 1962), to 2 %."""
    expected = 2 * np.pi * np.sqrt(3) / ratio
    rest = negative_modes(ring(48, 1e7, ratio, 0.0)[1])
    found = critical(
        lambda twist: negative_modes(ring(48, 1e7, ratio, twist)[1]) > rest, 0.6 * expected, 1.6 * expected
    )
    assert found == pytest.approx(expected, rel=0.02)


def test_pivots_of_the_band_count_negative_eigenvalues():
    rng = np.random.default_rng(2)
    n, half = 30, 4
    dense = np.zeros((n, n))
    for k in range(half + 1):
        v = rng.normal(size=n - k)
        dense += np.diag(v, k) + (np.diag(v, -k) if k else 0)
    band = np.zeros((n, half + 1))
    for k in range(half + 1):
        band[: n - k, k] = np.diag(dense, k)
    assert factor_band(band, half) == int((np.linalg.eigvalsh(dense) < 0).sum())
