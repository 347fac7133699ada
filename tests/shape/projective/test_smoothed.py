"""The energy of the smoothed strain: its gradient, what it counts of volumes, and the pressures that it gives."""

import numpy as np
import pytest
from cubes import beam, solve

import geosim
from geosim.linear.factorise import FactorisationError
from geosim.shape.projective.mesh import make_work
from geosim.shape.projective.smoothed import _smoothed_body
from geosim.shape.projective.solver import ProjectiveShapeSolver
from geosim.shape.projective.stiffness import MaterialMatrix

STILL = geosim.Environment(self_contact=False)


def _two(first, second):
    """The beam with another material in its second half."""
    robot = beam()
    middles = robot.vertices[robot.body_tets].mean(axis=1)[:, 0]
    regions = robot.regions.copy()
    regions[robot.is_body] = np.where(middles > 0.02, 7, 0)
    return geosim.VolumetricRobot.from_tets(
        robot.vertices, robot.tets, regions, material={0: first, 7: second}, fixed=robot.fixed, tip=robot.tip
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (geosim.NeoHookean(mu=5e4), geosim.MooneyRivlin(c1=3e4, c2=2e4)),
        (geosim.NeoHookean(mu=5e4, bulk_modulus=4e5), geosim.NeoHookean(mu=2e4, bulk_modulus=4e5)),
    ],
)
def test_the_force_is_the_gradient_of_the_energy(first, second):
    robot = _two(first, second)
    elements = make_work(robot, STILL, ProjectiveShapeSolver().targets).elements
    rng = np.random.default_rng(3)
    x = robot.vertices * (1.1, 0.95, 1.0) + 2e-4 * rng.standard_normal(robot.vertices.shape)
    way = rng.standard_normal(x.shape)
    energy, force = _smoothed_body(robot, elements, x)
    ahead, back = (_smoothed_body(robot, elements, x + s * 1e-8 * way)[0] for s in (1.0, -1.0))
    assert (ahead - back) / 2e-8 == pytest.approx(np.sum(force * way), rel=1e-6)
    assert energy > 0.0


def test_a_uniform_strain_has_the_energy_of_the_material():
    """Smoothing changes nothing there; a bulk modulus counts, an incompressible body's change of volume does not."""
    stretch = np.array([1.2, 0.9, 1.0])
    for bulk, volume in ((np.inf, 0.0), (4e5, 0.5 * 4e5 * (stretch.prod() - 1.0) ** 2)):
        robot = _two(*[geosim.NeoHookean(mu=5e4, bulk_modulus=bulk)] * 2)
        elements = make_work(robot, STILL, ProjectiveShapeSolver().targets).elements
        energy, _ = _smoothed_body(robot, elements, robot.vertices * stretch)
        shear = 0.5 * 5e4 * ((stretch**2).sum() * stretch.prod() ** (-2 / 3) - 3.0)
        assert energy / robot.body_volume == pytest.approx(shear + volume, rel=5e-3)


def test_what_is_inside_out_has_no_smoothed_energy():
    robot = beam()
    elements = make_work(robot, STILL, ProjectiveShapeSolver().targets).elements
    assert _smoothed_body(robot, elements, robot.vertices * (1.0, 1.0, -1.0)) is None


def test_a_robot_without_driven_chambers_has_the_smoothed_energy():
    down = geosim.Environment(gravity=(0, 0, -9.81), self_contact=False)
    result = geosim.solve(beam(), geosim.Passive(), down, solver=ProjectiveShapeSolver(error_estimate=False))
    elements = make_work(beam(), STILL, ProjectiveShapeSolver().targets).elements
    assert result.energies[0] == pytest.approx(_smoothed_body(beam(), elements, result.frames[0])[0], rel=1e-9)


def test_a_chamber_that_nothing_can_grow_keeps_its_pressure():
    """All walls are held: there is no way along which the energy could be differentiated."""
    robot = beam()
    walls = np.unique(robot.chamber_walls[0])
    held = np.union1d(robot.fixed, walls)
    still = geosim.VolumetricRobot.from_tets(
        robot.vertices, robot.tets, robot.regions, material=geosim.NeoHookean(mu=5e4), fixed=held, tip=robot.tip
    )
    result = solve(still, [1.0], error_estimate=False)
    assert result.converged
    assert np.isfinite(result.chamber_pressures).all()


def test_pressures_of_the_own_energy_are_said(monkeypatch):
    """Where the matrix has no factors a balance is one all the same; its pressures are those of stiffer elements."""

    def fails(self, tolerance):
        raise FactorisationError("zero pivot")

    assert not any("of its own stiff elements" in said for said in solve(beam(), [1.2], error_estimate=False).trust())
    monkeypatch.setattr(MaterialMatrix, "responses", fails)
    stiff = solve(beam(), [1.2], error_estimate=False)
    assert stiff.converged
    assert any("of its own stiff elements" in said for said in stiff.trust())


def test_pressures_are_near_those_of_the_energy_solver():
    """A beam of thick walls, one cube through them: its own elements are 46 and 32 % too stiff."""
    robot = beam(size=(8, 4, 4), hollow=((2, 7), (1, 3), (1, 3)))
    mine = solve(robot, [1.5, 3.0], error_estimate=False)
    theirs = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.5, 3.0]), STILL)
    error = mine.chamber_pressures[:, 0] / theirs.chamber_pressures[:, 0] - 1.0
    assert np.abs(error).max() < 0.15
