"""Buckling of rods: Greenhill's column, Euler's column, and Michell's twisted ring."""

from __future__ import annotations

import numpy as np
import pytest

from geosim import Environment, LinearElastic, Load, NaturalShape, Passive, Status, solve
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
    natural[:nodes, :2] = 0.0
    natural[:nodes, 2] = state.strains()[:nodes, 2] - twist / nodes
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


# -- what statics says of stability ------------------------------------------------------------------------------------

GREENHILL, EULER, MICHELL = 7.8373, np.pi**2 / 4, 2 * np.pi * np.sqrt(3)


def standing(share: float, kind: str, held: bool, slender: float = 100.0, nudge: float = 0.0):
    """Solve a straight column under a share of its critical load; `held` says whether its lowest edge may twist."""
    nodes = 41
    x = np.stack([np.zeros(nodes), np.zeros(nodes), np.linspace(0, 1, nodes)], axis=1)
    material, radius = LinearElastic(1e7, 0.5, 1000.0), 1.0 / slender
    robot = RodShellRobot(
        x, radius=radius, rod_material=material, fixed_vertices=[0, 1], fixed_edges=[0] if held else ()
    )
    stiffness, length = 1e7 * np.pi * radius**4 / 4, 1 - 0.5 / (nodes - 1)  # clamped in the middle of the lowest edge
    weight = 1000.0 * np.pi * radius**2
    gravity, load = 0.0, [Load.force([nodes - 1], (nudge, 0.0, 0.0))]
    if kind == "greenhill":
        gravity = share * GREENHILL * stiffness / (weight * length**3)
    else:
        load.append(Load.force([nodes - 1], (0, 0, -share * EULER * stiffness / length**2)))
    environment = Environment(gravity=(0, 0, -gravity), loads=load)
    return solve(robot, Passive(), environment, solver=RodShellStepper(static=True), throw=False)


def twisted_ring(share: float):
    """Solve a free ring that its natural twist turns by a share of the twist at which it writhes."""
    robot, state = ring(48, 1e7, 1.0, share * MICHELL)
    length = robot.bends.length
    twist, straight = (state.natural[:48, 2] / length)[None], np.zeros((1, 48, 2))
    shape = NaturalShape([1.0], curvature=straight, twist=twist)
    return solve(robot, shape, solver=RodShellStepper(static=True), throw=False)


@pytest.mark.parametrize("share", [0.97, 1.03])
@pytest.mark.parametrize(
    "case",
    [
        lambda share: standing(share, "greenhill", True),
        lambda share: standing(share, "greenhill", False),
        lambda share: standing(share, "greenhill", True, slender=1000.0),
        lambda share: standing(share, "euler", True),
        lambda share: standing(share, "euler", False),
        lambda share: twisted_ring(share),
    ],
    ids=["greenhill", "greenhill, twist free", "greenhill, slender", "euler", "euler, twist free", "michell"],
)
def test_statics_says_unstable_above_a_critical_load_and_not_below(case, share):
    """Motions that cost nothing (a free twist, a ring that turns) are no instability."""
    result = case(share)
    assert result.status is (Status.CONVERGED if share < 1 else Status.UNSTABLE)
    assert result.stable[-1] == float(share < 1)


def test_a_body_that_may_move_freely_is_stable_where_nothing_pushes_it():
    robot, _ = ring(41, 1e7, 1.0, 0.0)
    result = solve(robot, Passive(), solver=RodShellStepper(static=True))
    assert (result.status, result.stable[-1]) == (Status.CONVERGED, 1.0)


@pytest.mark.parametrize("share", [1.1, 2.0])
def test_a_nudge_of_a_nanonewton_leaves_the_saddle(share):
    """Above Greenhill's load a column leans to the side of the nudge, where a large one leads, too."""
    ends = []
    for nudge in (1e-9, -1e-9, 1e-4):
        result = standing(share, "greenhill", True, nudge=nudge)
        assert result.converged
        assert result.stable[-1] == 1
        ends.append(result.frames[-1, -1])
    assert ends[0][0] > 0.4
    np.testing.assert_allclose(ends[1], ends[0] * [-1, 1, 1], atol=1e-4)
    np.testing.assert_allclose(ends[2], ends[0], atol=5e-3)


@pytest.mark.parametrize("slender", [100.0, 3333.0])
@pytest.mark.parametrize("load", [1.0, 100.0])
def test_bending_takes_few_iterations_however_slender_a_rod_is(slender, load):
    """A cantilever under a load F L^2 / EI at its end; 2833 iterations at 3333 with tensions from positions alone."""
    nodes, radius = 41, 1.0 / slender
    x = np.stack([np.linspace(0, 1, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    robot = RodShellRobot(
        x, radius=radius, rod_material=LinearElastic(1e7, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0]
    )
    stiffness = 1e7 * np.pi * radius**4 / 4
    environment = Environment(loads=[Load.force([nodes - 1], (0, 0, -load * stiffness))])
    result = solve(robot, Passive(), environment, solver=RodShellStepper(static=True))
    assert len(result.trace) <= 12  # measured: 4 to 8
    # the exact elastica of the clamped length: F L^2 / EI = 1 lowers the end by 0.3017 L
    if load == 1.0:
        short = 1 - 0.5 / (nodes - 1)
        assert result.frames[-1, -1, 2] == pytest.approx(-0.3017 * short**3, rel=0.02)
