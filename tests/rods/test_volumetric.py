"""The same slender cantilever by the volumetric and by the rod solver, through one call of `solve`."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from geosim import Environment, LinearElastic, NeoHookean, Passive, Select, VolumetricRobot, solve
from geosim.rods.robot import RodShellRobot
from geosim.rods.section import Section
from geosim.rods.stepper import RodShellStepper


def bar(length: float, side: float, along: int, across: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and Kuhn tetrahedra of a square bar along x, centred on the axis."""
    axes = (np.linspace(0, length, along + 1), *(np.linspace(-side / 2, side / 2, across + 1) for _ in range(2)))
    vertices = np.array(list(product(*axes)))
    number = np.arange(len(vertices)).reshape(along + 1, across + 1, across + 1)
    corners = [number[a : a + along, b : b + across, c : c + across].ravel() for a, b, c in product((0, 1), repeat=3)]
    tets = np.concatenate(
        [
            np.stack([corners[0], corners[p], corners[q], corners[7]], axis=1)
            for p, q in ((1, 3), (1, 5), (2, 3), (2, 6), (4, 5), (4, 6))
        ]
    )
    flipped = np.linalg.det(vertices[tets[:, 1:]] - vertices[tets[:, :1]]) < 0
    tets[flipped] = tets[flipped][:, [0, 2, 1, 3]]
    return vertices, tets


@pytest.mark.slow
def test_rod_and_volumetric_solver_agree_on_a_slender_cantilever():
    """Tip deflection under gravity, length 50 times the height, large deflection: within 1 %."""
    length, side, modulus = 0.1, 0.002, 1e6
    environment = Environment(gravity=(0, 0, -9.81 * 0.036))
    vertices, tets = bar(length, side, 80, 2)
    solid = VolumetricRobot.from_tets(
        vertices,
        tets,
        np.zeros(len(tets), dtype=int),
        material=NeoHookean(mu=modulus / 3, density=1000.0),
        fixed=Select.plane("x", below=1e-9),
        tip=Select.plane("x", above=length - 1e-9),
    )
    nodes = 81
    step = length / (nodes - 1.5)  # the clamp is half an edge before vertex 1
    axis = np.stack([-0.5 * step + step * np.arange(nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    rod = RodShellRobot(
        axis,
        radius=side / 2,
        section=Section.rectangle(side, side),
        fixed_vertices=[0, 1],
        rod_material=LinearElastic(modulus, 0.5, 1000.0),
        fixed_edges=[0],
        planar="xz",
    )
    drops = []
    for robot, solver, rest in ((solid, None, length), (rod, RodShellStepper(static=True), axis[-1, 0])):
        result = solve(robot, Passive(), environment, solver=solver)
        assert result.converged
        drops.append(result.tip[-1] - [rest, 0, 0])
    assert drops[0][2] < -0.05 * length
    assert drops[1][2] == pytest.approx(drops[0][2], rel=0.01)
    assert drops[1][0] == pytest.approx(drops[0][0], rel=0.03)
