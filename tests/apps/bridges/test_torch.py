"""Shapes as functions of tensors: their gradients are differences of shapes that are solved again."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import Cable, EnergyShapeSolver, Environment, NeoHookean, generate

torch = pytest.importorskip("torch", reason="needs PyTorch, which is large: pip install '.[torch]'")

SHARP = EnergyShapeSolver(element="p1", tolerance=1e-11, check_stability=False)
ALONE = Environment(self_contact=False)
RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)


def finger(cables=()):
    """A bar of 4 x 3 x 3 cells with a cavity off its middle, which bends when it is inflated."""
    vertices, tets = block((0.04, 0.012, 0.012), (4, 3, 3))
    vertices[vertices[:, 2] > 0.0079, 2] += 0.002
    middle = vertices[tets].mean(axis=1)
    inside = (np.abs(middle - (0.02, 0.006, 0.007)) < (0.01, 0.002, 0.003)).all(axis=1)
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.04 - 1e-9
    regions = None if len(cables) else inside.astype(int)
    return geosim.VolumetricRobot.from_tets(
        vertices, tets, regions, material=RUBBER, fixed=ends[0], tip=ends[1], cables=cables
    )


def _agrees(function, *at):
    at = tuple(torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in at)
    assert torch.autograd.gradcheck(function, at, eps=1e-5, atol=1e-6, rtol=1e-5)


def test_all_measures_of_a_batch_by_controls_and_materials():
    robot = finger()

    def function(ratios, c1):
        of = ("positions", "bend_angle", "chamber_pressures", "chamber_volumes")
        material = {"c1": 40e3 * c1}
        found = geosim.torch.shape(robot, ratios, material, of=of, environment=ALONE, solver=SHARP)
        places, bend, pressures, volumes = found
        assert places.shape == (2, len(robot.vertices), 3)
        return places[:, 39] * 1e2, bend, pressures * 1e-4, volumes * 1e7

    _agrees(function, [[1.2], [1.4]], [1.0, 1.2])


def test_the_tension_of_a_cable():
    robot = finger((Cable([[0, 6e-3, 13e-3], [40e-3, 6e-3, 13e-3]]),))
    tip = lambda t: 1e2 * geosim.torch.shape(robot, t, of="tip", vary="cable_tension", solver=SHARP)  # noqa: E731
    _agrees(tip, [0.3])


def test_walls_of_a_design_and_the_pressure():
    """The mesh moves with the wall; the adjoint of both numbers is one."""
    robot = generate.pneunet(chambers=1, chamber_length=12e-3).robot(NeoHookean(mu=50e3), max_edge=12e-3)

    def function(pressure, wall):
        return 1e3 * geosim.torch.shape(
            robot, 1e3 * pressure, dimensions={"wall": 1e-3 * wall}, of="tip", vary="pressure", solver=SHARP
        )

    _agrees(function, [2.0], 2.1)


def test_what_is_not_reached_or_cannot_be_raises():
    robot = finger()
    stingy = EnergyShapeSolver(element="p1", max_factorisations=2, check_stability=False)
    ratio = torch.tensor([[1.1], [3.0]], requires_grad=True)
    with pytest.raises(geosim.SolveError, match="row"):
        geosim.torch.shape(robot, ratio, environment=ALONE, solver=stingy)
    with pytest.raises(geosim.InputError, match="2 controls are given"):
        geosim.torch.shape(robot, [1.1, 1.2])
    with pytest.raises(geosim.InputError, match="no 'mu'"):
        geosim.torch.shape(robot, [1.1], {"mu": 1e4})
    with pytest.raises(geosim.InputError, match="not made from a design"):
        geosim.torch.shape(robot, [1.1], dimensions={"wall": 1e-3})
    with pytest.raises(geosim.InputError, match="rows do not go together"):
        geosim.torch.shape(robot, [[1.1], [1.2]], {"c1": [1e4, 2e4, 3e4]})


def test_dimensions_that_turn_the_mesh_inside_out_are_refused():
    robot = generate.pneunet(chambers=1, chamber_length=12e-3).robot("ecoflex-00-30-fang2022", max_edge=12e-3)
    with pytest.raises(geosim.InputError, match="inside out; mesh the design again"):
        geosim.torch.shape(robot, [1.1], dimensions={"wall": 9e-3})
