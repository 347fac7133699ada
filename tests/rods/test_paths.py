"""Paths of equilibria through limit points, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from geosim import Environment, InputError, LinearElastic, Load, NaturalShape, Obstacle, Passive, RodShellRobot
from geosim.rods.paths import equilibrium_path

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
