"""Cables in the energy solver: scalars like chambers, slack, friction at the points, and what goes together with what."""

import numpy as np
import pytest
import shapes

import geosim
from geosim import Cable, CableLengths, CableTensions, InputError, NeoHookean, Select, VolumetricRobot
from geosim.shape.energy.constraints.cables import Cables
from geosim.shape.energy.constraints.scalars import StickSlip
from geosim.shape.energy.problem import make_problem

LENGTH, SIDE, OFFSET, MU = 0.1, 0.01, 0.003, 0.5
STEPS = np.linspace(0.0, LENGTH, 11)


def beam(**options):
    """A slender beam, clamped at x = 0, with a cable above its axis that is guided at every section."""
    vertices, tets = shapes.block((LENGTH, SIDE, SIDE), (10, 1, 1))
    points = [(x, 0.5 * SIDE, 0.5 * SIDE + OFFSET) for x in STEPS]
    held = Select.plane("x", below=1e-6)
    return VolumetricRobot.from_tets(
        vertices, tets, material=NeoHookean(mu=50e3), fixed=held, cables=[Cable(points, **options)]
    )


def wraps(result, frame):
    """Angles between the pieces of the cable, from the curved positions of its points."""
    problem = result.state.problem
    x = problem.scaled(result.nodes(frame)[problem.nodes])
    t = problem.cables.strands.ways(x)[0]
    return np.arccos(np.clip((t[1:] * t[:-1]).sum(axis=1), -1.0, 1.0))


@pytest.fixture(scope="module")
def pulled():
    return geosim.solve(beam(), CableTensions([0.02, 0.3]))


@pytest.fixture(scope="module")
def rough():
    return geosim.solve(beam(friction=MU), CableTensions([0.1, 0.3, 0.29, 0.1, 0.0]))


@pytest.mark.parametrize("order", [1, 2])
def test_forces_are_the_gradient_of_the_work_and_the_tangent_theirs(order):
    """Of a smooth and a rough cable: gradients of the scalars, columns of their forces, stiffness, by central differences."""
    vertices, tets = shapes.block((2.0, 1.0, 1.0), (2, 1, 1), skew=0.1)
    points = [(0.0, 0.4, 0.5), (0.7, 0.5, 0.6), (1.2, 0.6, 0.4), (2.0, 0.5, 0.5)]
    cables = [Cable(points[::-1]), Cable(points, friction=0.4, pulled="last")]
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=NeoHookean(mu=1e3), fixed=Select.plane("x", below=1e-6), cables=cables
    )
    problem = make_problem(robot, geosim.Environment(self_contact=False), order, "auto")
    rng = np.random.default_rng(0)
    x = problem.rest + 0.02 * rng.standard_normal(problem.rest.shape)
    p, none = np.zeros(len(problem.pressure_vertices)), np.zeros_like(x)
    forces = np.array([0.3, 0.2, -0.02, 0.0])
    hold = StickSlip(np.array([0, 0, 0, 1]), np.zeros(4))  # the first point sticks, the second slides
    evaluate = lambda x, f, **k: problem.evaluate(x, p, f, none, hold=hold, **{"matrix": False, **k})  # noqa: E731
    here, way, h = evaluate(x, forces, matrix=True), rng.standard_normal(x.shape), 1e-7
    ahead, back = evaluate(x + h * way, forces), evaluate(x - h * way, forces)
    slopes = (ahead.scalars - back.scalars) / (2 * h)
    np.testing.assert_allclose(slopes, np.einsum("dni,ni->d", here.gradients, way), rtol=1e-7)
    step = np.zeros(problem.pattern.size)
    step[: x.size] = way.ravel()
    expected = here.sparsity.product(here.data, step)[: x.size]
    turned = problem.cables.turn(x, forces, hold.modes, way).ravel()
    found = (ahead.force - back.force).ravel() / (2 * h)
    np.testing.assert_allclose(found, expected + turned, atol=1e-6 * np.abs(expected).max())
    assert np.abs(turned).max() > 1e-3 * np.abs(expected).max()
    for d in range(4):
        change = (evaluate(x, forces + h * np.eye(4)[d]).force - evaluate(x, forces - h * np.eye(4)[d]).force) / (2 * h)
        np.testing.assert_allclose(change, -here.columns[d], atol=1e-8)


def test_a_beam_bends_as_theory_says(pulled):
    """T e L / E I at a bend of 3 degrees; measured: 0.5 %, of which shear and the width of the mesh are part."""
    expected = 0.02 * OFFSET * LENGTH / (3 * 50e3 * SIDE**4 / 12)
    assert pulled.bend_angle[0] == pytest.approx(expected, rel=0.02)


def test_length_and_tension_are_two_names_of_one_state(pulled):
    again = geosim.solve(beam(), CableLengths(pulled.cable_lengths))
    assert "slack" not in again.message
    np.testing.assert_allclose(again.cable_tensions, pulled.cable_tensions, rtol=1e-5)
    assert np.abs(again.frames - pulled.frames).max() < 1e-5 * LENGTH


def test_work_of_the_cable_is_stored(pulled):
    """Integral of T dl = elastic energy, by Simpson's rule over 8 commands; measured 3e-5."""
    lengths = np.linspace(LENGTH, pulled.cable_lengths[-1, 0], 9)[1:]
    path = geosim.solve(beam(), CableLengths(lengths))
    tension = np.concatenate([[0.0], path.cable_tensions[:, 0]])
    weights = np.array([1, 4, 2, 4, 2, 4, 2, 4, 1]) / 3.0
    assert weights @ tension * (LENGTH - lengths[0]) == pytest.approx(path.work[-1], rel=1e-4)


def test_a_cable_does_not_push():
    path = geosim.solve(beam(), CableLengths([0.11, 0.0995, 0.105, np.nan]))
    assert (path.cable_tensions[[0, 2, 3]] == 0.0).all()
    np.testing.assert_allclose(path.cable_lengths[[0, 2, 3]], LENGTH, rtol=1e-9)
    assert "Cable 1 hangs slack at command 1: 110 mm are given, its way through the robot is 100 mm" in path.message
    assert path.cable_lengths[1, 0] == pytest.approx(0.0995, rel=1e-7)
    assert path.cable_tensions[1, 0] > 0.03


def test_friction_takes_the_capstan_share_while_pulling_and_letting_go(rough):
    for frame, sign in ((0, -1.0), (1, -1.0), (3, 1.0)):
        first, last = rough.cable_end_tensions[frame, 0]
        assert last / first == pytest.approx(np.exp(sign * MU * wraps(rough, frame).sum()), rel=1e-4)
    assert (rough.cable_end_tensions[4] == 0.0).all()
    np.testing.assert_allclose(rough.frames[4], rough.robot.vertices, atol=1e-9)


def test_reversal_sticks_first(rough):
    """A tension lower by 3 % lets hardly anything go: the far end keeps its tension and the finger its bend."""
    assert rough.cable_end_tensions[2, 0, 1] == pytest.approx(rough.cable_end_tensions[1, 0, 1], rel=1e-3)
    stuck = rough.bend_angle[1] - rough.bend_angle[2]
    gliding = rough.bend_angle[1] - rough.bend_angle[0]
    assert 0.0 < stuck / 0.01 < 0.25 * gliding / 0.2


def test_the_other_end_pulled_mirrors_the_tensions(rough):
    last = geosim.solve(beam(friction=MU, pulled="last"), CableTensions([0.1]))
    np.testing.assert_allclose(last.cable_end_tensions[0, 0, ::-1], rough.cable_end_tensions[0, 0], rtol=1e-3)
    np.testing.assert_allclose(last.cable_tensions[0], 0.1)


def test_a_command_that_drives_nothing_is_refused(monkeypatch):
    """An actuator that finds nothing of its own on a body leaves no command unsaid."""
    monkeypatch.setattr(Cables, "of", classmethod(lambda kind, body, environment, groups: None))
    with pytest.raises(InputError, match="CableTensions does not actuate this robot: Cables found"):
        geosim.solve(beam(), CableTensions([0.1]))
    assert geosim.solve(beam(), geosim.Passive()).converged


def test_refusals_name_the_cause():
    with pytest.raises(InputError, match="both a length and a tension"):
        geosim.solve(beam(), CableLengths([0.09]) & CableTensions([0.1]))
    with pytest.raises(InputError, match="ProjectiveShapeSolver knows no friction"):
        geosim.solve(beam(friction=0.1), CableTensions([0.1]), solver=geosim.ProjectiveShapeSolver())
    with pytest.raises(InputError, match="pulled"):
        Cable([(0, 0, 0), (1, 0, 0)], pulled="middle")
    with pytest.raises(InputError, match="friction"):
        Cable([(0, 0, 0), (1, 0, 0)], friction=-0.1)
