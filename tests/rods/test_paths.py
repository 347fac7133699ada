"""Paths of equilibria through limit points, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ellipk

from geosim import (
    Environment,
    InputError,
    LinearElastic,
    Load,
    NaturalShape,
    Obstacle,
    Passive,
    Prescribed,
    RodShellRobot,
    RodShellStepper,
    Status,
    solve,
)
from geosim.rods.balance import Balance
from geosim.rods.paths import equilibrium_path

STATIC = RodShellStepper(static=True)

RUBBER = LinearElastic(1e8, 0.5, 1000.0)


def test_the_path_of_a_von_mises_truss_is_its_closed_form_from_one_shape_to_the_other():
    """P = 2 EA (1 - l / l0) (h - w) / l with l^2 = a^2 + (h - w)^2: two limit points, and unstable between them."""
    a, h, radius, load = 0.1, 0.03, 1e-3, 20.0
    x = np.array([[-a, 0, 0], [0, 0, h], [a, 0, 0]])
    truss = RodShellRobot(x, radius=radius, rod_material=RUBBER, fixed_vertices=[0, 2], planar="xz", bend_stiffness=0.0)
    path = equilibrium_path(truss, Passive(), Environment(loads=[Load.force([1], (0, 0, -load))]), step=0.03)
    z = path.frames[:, 1, 2]
    length, rest = np.hypot(a, z), np.hypot(a, h)
    force = lambda z, length: 2 * 1e8 * np.pi * radius**2 * (1 - length / rest) * z / length  # noqa: E731
    np.testing.assert_allclose(path.shares * load, force(z, length), atol=1e-5 * load)
    assert path.shares[-1] >= 1.0
    assert z[-1] < -h
    highest = a * np.sqrt((rest / a) ** (2 / 3) - 1)  # where dP/dw = 0: l^3 = a^2 l0
    limit = force(highest, np.hypot(a, highest)) / load
    np.testing.assert_allclose(path.limit_shares, [limit, -limit], rtol=2e-3)
    between = abs(z) < 0.95 * highest
    assert path.unstable[between].all()
    assert not path.unstable[abs(z) > 1.05 * highest].any()


def test_a_shallow_arch_turns_at_its_snap_load():
    """Pinned, z = h sin(pi x / L) under q sin(pi x / L): q = EI k^4 (h - b) + EA k^4 (h^2 - b^2) b / 4, largest at 3 b^2 = h^2 - 4 I / A."""  # noqa: E501
    n, span, radius = 41, 0.2, 2e-3
    inertia, area, k, h = np.pi * radius**4 / 4, np.pi * radius**2, np.pi / span, 3.0 * radius / 2
    s = np.linspace(0, span, n)
    x = np.stack([s, 0 * s, h * np.sin(k * s)], axis=1)
    arch = RodShellRobot(x, radius=radius, rod_material=RUBBER, fixed_vertices=[0, n - 1], planar="xz")
    b = np.sqrt((h**2 - 4 * inertia / area) / 3)
    snap = 1e8 * k**4 * (inertia * (h - b) + area * (h**2 - b**2) * b / 4)
    loads = [Load.force([i], (0, 0, -1.5 * snap * np.sin(k * s[i]) * span / (n - 1))) for i in range(1, n - 1)]
    path = equilibrium_path(arch, Passive(), Environment(loads=loads), step=0.01)
    assert len(path.limit_points) == 2
    assert path.limit_shares[0] == pytest.approx(1 / 1.5, rel=0.01)
    assert path.frames[-1, n // 2, 2] < -h


def test_natural_curvature_as_the_load_bends_to_the_arc_without_turning():
    x = np.zeros((11, 3))
    x[:, 0] = np.linspace(0, 0.1, 11)
    rod = RodShellRobot(x, radius=1e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0], planar="xz")
    path = equilibrium_path(rod, NaturalShape([1.0], curvature=[10.0]), step=0.2)
    assert not len(path.limit_points)
    assert not path.unstable.any()
    tip = path.frames[-1, -1] - path.frames[-1, -2]
    turn = 9 * 2 * np.arctan(path.shares[-1] * 10.0 * 0.01 / 2)
    assert np.arctan2(abs(tip[2]), tip[0]) == pytest.approx(turn, rel=1e-6)


def test_obstacles_are_refused():
    rod = RodShellRobot([[0, 0, 0], [0.1, 0, 0]], radius=1e-3, rod_material=RUBBER, fixed_vertices=[0])
    floor = Environment(obstacles=[Obstacle.plane((0, 0, -1), (0, 0, 1))])
    with pytest.raises(InputError, match="obstacles are not followed"):
        equilibrium_path(rod, Passive(), floor)


def test_a_moment_grows_with_the_share_and_winds_a_rod_to_an_arc():
    """A bending moment M at the end of a rod: s M l = EI k (1 + k^2 / 4), k = 2 tan(turn / 2) of every stencil."""
    x = np.zeros((11, 3))
    x[:, 0] = np.linspace(0, 0.1, 11)
    rod = RodShellRobot(x, radius=1e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0], planar="xz")
    stiffness, moment = 1e8 * np.pi * 1e-3**4 / 4, 2e-3
    path = equilibrium_path(rod, Passive(), Environment(loads=[Load.moment([9], (0, -moment, 0))]), step=0.5)
    assert path.shares[-1] == 1.0
    tip = path.frames[:, -1] - path.frames[:, -2]
    k = 2 * np.tan(np.unwrap(np.arctan2(tip[:, 2], tip[:, 0])) / 9 / 2)
    np.testing.assert_allclose(path.shares, stiffness * k * (1 + k**2 / 4) / (0.01 * moment), atol=1e-6)


# -- bifurcations ------------------------------------------------------------------------------------------------------


def pinned_ring(nodes, ratio):
    """A ring of radius 1 with GJ / EI = ratio, held where the axes of symmetry of its writhing meet it, and one edge's turn."""
    angle, quarter = 2 * np.pi * np.arange(nodes) / nodes, nodes // 4
    x = np.stack([np.cos(angle), np.sin(angle), np.zeros(nodes)], axis=1)
    edges = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], axis=1)
    held = np.zeros((nodes, 3), dtype=bool)
    held[::quarter, 2] = held[:: 2 * quarter, 1] = held[quarter :: 2 * quarter, 0] = True
    twist = ratio * 1e7 * np.pi * 0.01**4 / 4
    material = LinearElastic(1e7, 0.5, 1000.0)
    return RodShellRobot(
        x, edges, radius=0.01, rod_material=material, twist_stiffness=twist, fixed_components=held, fixed_edges=[0]
    )


@pytest.mark.parametrize(("ratio", "points"), [(1.0, 70), (2.0, 50)])
def test_the_ring_of_michell_leaves_its_plane_and_winds_to_a_figure_of_eight(ratio, points):
    """A naturally straight, closed and twisted ring, GJ / EI = c.

    It writhes at the twist 2 pi sqrt(3) / c [Michell 1889]; the twist falls on the branch where c < 11/8 and rises where
    c > 11/8 [Coleman, Dill and Swigon 1995]. With the twist 2 pi it is a plane figure of eight without any twist, of the
    length 4 k / lambda, where 2 E(k) = K(k) and lambda = 4 K / (2 pi).
    """
    nodes = 48
    ring, straight = pinned_ring(nodes, ratio), np.zeros((1, nodes, 2))
    critical = 2 * np.pi * np.sqrt(3) / ratio
    total = 1.5 * max(critical, 2 * np.pi)
    plane = solve(ring, NaturalShape([1.0], curvature=straight), solver=STATIC).state
    twisted = NaturalShape([1.0], curvature=straight, twist=np.full((1, nodes), -total / nodes) / ring.bends.length)
    path = equilibrium_path(ring, twisted, initial=plane, branch=True, step=0.1, points=points)
    first, twist = path.bifurcations[0], path.shares * total
    assert twist[first] == pytest.approx(critical, rel=0.02)
    assert not path.unstable[: first + 1].any()
    assert np.ptp(path.frames[: first + 1, :, 2]) < 1e-9
    # beyond it: to the side that theory says, stable where the twist rises
    way = twist[first + 5 : first + 15] / twist[first] - 1
    assert (way < 0).all() if ratio < 11 / 8 else (way > 0).all()
    assert path.unstable[first + 5 : first + 15].all() == (ratio < 11 / 8)
    # the figure of eight, where two opposite vertices meet
    apart = np.minimum(path.frames[:, nodes // 4, 1], path.frames[:, 0, 0])
    after = np.flatnonzero(apart < 0)[0]
    share = apart[after - 1] / (apart[after - 1] - apart[after])
    at = twist[after - 1] + share * (twist[after] - twist[after - 1])
    assert at == pytest.approx(2 * np.pi, rel=0.03)
    modulus2 = 0.826115  # 2 E = K
    length = 4 * np.sqrt(modulus2) / (4 * ellipk(modulus2) / (2 * np.pi))
    assert np.ptp(path.frames[after], axis=0).max() == pytest.approx(length, rel=0.01)
    # what holds the ring fixes where it writhes and bears nothing: this is the free ring
    last = path.state
    trial, force = Balance(last.system, last, last.natural, last.external, 0.0).residual(last.q)
    assert abs(force).max() < 1e-6 * max(trial.force, trial.moment)


SPAN, NODES, RADIUS, MODULUS, SHORTER = 0.2, 41, 2.5e-4, 1e9, 8e-4
MIDDLE = NODES // 2


def strip():
    """A straight strip with clamped ends, and the supports that bring them together."""
    x = np.zeros((NODES, 3))
    x[:, 0] = np.linspace(0, SPAN, NODES)
    material = LinearElastic(MODULUS, 0.5, 1000.0)
    held = {"fixed_vertices": [0, 1], "fixed_edges": [0, NODES - 2], "planar": "xz"}
    robot = RodShellRobot(x, radius=RADIUS, rod_material=material, **held)
    return robot, Prescribed([NODES - 2, NODES - 1], (-SHORTER, 0, 0))


def snap_load():
    """The force at the middle of a buckled strip whose thrust is the second of Euler's loads, k L / 2 = tan(k L / 2).

    EI d4w/dx4 + P d2w/dx2 = 0 on either half, w' = B [1 - cos kx - tan(kL/4) sin kx], F = 2 EI k^2 B, with as much of the
    shortening as thrust leaves, P L / EA + int (dw/dx)^2 / 2. Clamps end half an edge inside.
    """
    length, beta = SPAN * (1 - 1 / (NODES - 1)), 4.4934094579
    stiffness, axial, k = MODULUS * np.pi * RADIUS**4 / 4, MODULUS * np.pi * RADIUS**2, 2 * beta / length
    s = np.linspace(0, length / 2, 2001)
    slope = 1 - np.cos(k * s) - np.tan(beta / 2) * np.sin(k * s)
    left = SHORTER - stiffness * k**2 * length / axial
    return 2 * stiffness * k**2 * np.sqrt(left / np.trapezoid(slope**2, s))


def buckled():
    """The strip, its supports, and the path from straight to buckled."""
    robot, together = strip()
    return robot, together, equilibrium_path(robot, Passive(), Environment(prescribed=[together]), branch=True)


def test_a_straight_strip_is_said_to_be_unstable_and_its_path_buckles_at_the_load_of_euler():
    robot, together, path = buckled()
    straight = solve(robot, Passive(), Environment(prescribed=[together]), solver=STATIC, throw=False)
    assert straight.status is Status.UNSTABLE
    assert abs(straight.frames[-1, :, 2]).max() == 0.0
    length = SPAN * (1 - 1 / (NODES - 1))
    # 4 pi^2 EI / L^2 over EA / L, a 64th of a step of 0.05 wide
    euler = np.pi**2 * RADIUS**2 / length / SHORTER
    assert path.shares[path.bifurcations] == pytest.approx([euler], abs=0.05 / 64)
    assert path.shares[-1] == 1.0
    assert not path.unstable.any()
    high = 2 / np.pi * np.sqrt((SHORTER - np.pi**2 * RADIUS**2 / length) * length)
    assert path.frames[-1, MIDDLE, 2] == pytest.approx(high, rel=0.01)
    left = equilibrium_path(robot, Passive(), Environment(prescribed=[together]))
    assert left.unstable[left.bifurcations[0] + 1 :].all()
    assert abs(left.frames[..., 2]).max() == 0.0


def test_a_bistable_strip_snaps_at_the_load_of_its_second_mode_between_two_stable_shapes():
    robot, together, way = buckled()
    load, up = snap_load(), way.state
    pushed = Environment(prescribed=[together], loads=[Load.force([MIDDLE], (0, 0, -2 * load))])
    path = equilibrium_path(robot, Passive(), pushed, initial=up, branch=True, step=0.03, points=80)
    shares, middle = path.shares, path.frames[:, MIDDLE, 2]
    assert 2 * shares[path.bifurcations[0]] == pytest.approx(1.0, rel=0.015)
    assert path.limit_shares[0] == pytest.approx(-0.5, rel=0.02)  # where it meets the shape turned over
    assert path.unstable[path.bifurcations[0] + 1 :].all()
    # half-way the strip is the second mode: no force, and turned by half a turn about its middle it is the same
    no_load = np.argmin(abs(middle))
    assert abs(shares[no_load]) < 0.03
    assert abs(path.frames[no_load, :, 2] + path.frames[no_load, ::-1, 2]).max() < 0.1 * abs(path.frames[no_load]).max()
    # A force beside the middle, or rounding alone would say whether the strip leaves the unstable shape that is as symmetric.
    beside = Load.force([MIDDLE // 2], [(0, 0, 1e-4 * load)] * 2 + [(0, 0, 0)])
    for share, side in ((0.97, 1), (1.03, -1)):
        force = [(0, 0, -0.5 * share * load), (0, 0, -share * load), (0, 0, 0)]
        there = Environment(prescribed=[together], loads=[Load.force([MIDDLE], force), beside])
        result = solve(robot, Passive(steps=3), there, solver=STATIC, initial=up)
        assert ("snapped" in result.message) == (side < 0)
        np.testing.assert_allclose(result.frames[-1, :, 2], side * up.positions[:, 2], atol=1e-6)
        assert result.stable[-1] == 1


def test_a_path_from_a_loaded_shape_unloads_to_the_shape_at_rest():
    rod = strip()[0]
    free = RodShellRobot(rod.vertices, radius=RADIUS, rod_material=rod.rod_material, fixed_vertices=[0, 1], planar="xz")
    bent = solve(free, Passive(), Environment(loads=[Load.force([NODES - 1], (0, 0, -5e-4))]), solver=STATIC)
    path = equilibrium_path(free, Passive(), initial=bent.state, step=0.2)
    assert path.shares[-1] == 1.0
    np.testing.assert_allclose(path.frames[0], bent.frames[-1], atol=1e-12)
    np.testing.assert_allclose(path.frames[-1], free.vertices, atol=1e-8)
