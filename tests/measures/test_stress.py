"""Stress as a field of files and pictures, and the stretch that a material is known to."""

import numpy as np
import pytest
import shapes

import geosim
from geosim import EnergyShapeSolver, Environment, NeoHookean, Prescribed, Select, VolumetricRobot
from geosim.measures import strain
from geosim.show import fields

MU = 50e3


@pytest.fixture(scope="module")
def pulled():
    """A slab pulled to twice its length, its sides free to thin; nothing is known of its material beyond 1.5."""
    vertices, tets = shapes.block((0.02, 0.01, 0.01), (2, 1, 1))
    ends = [
        Prescribed(Select.plane("x", below=1e-6), (0.0, np.nan, np.nan)),
        Prescribed(Select.plane("x", above=0.02 - 1e-6), (0.02, np.nan, np.nan)),
        Prescribed(Select.plane("y", below=1e-6), (np.nan, 0.0, np.nan)),
        Prescribed(Select.plane("z", below=1e-6), (np.nan, np.nan, 0.0)),
    ]
    material = NeoHookean(mu=MU).known_as("a test", 1.5, np.nan)
    robot = VolumetricRobot.from_tets(vertices, tets, material=material, fixed=None)
    environment = Environment(prescribed=ends, self_contact=False)
    return geosim.solve(robot, geosim.Passive(), environment, solver=EnergyShapeSolver(element="p1"))


def test_files_and_pictures_carry_the_stress(pulled, tmp_path):
    """Uniaxial, stretch 2: the Cauchy stress is mu (4 - 1 / 2), and so is von Mises'."""
    exact = MU * (4.0 - 0.5)
    np.testing.assert_allclose(pulled.stress(), exact, rtol=1e-5)
    meshio = pytest.importorskip("meshio")
    written = meshio.read(pulled.save(tmp_path / "pulled.vtu")).point_data["von_mises"]
    np.testing.assert_allclose(np.ravel(written)[: len(pulled.stress())], pulled.stress(), rtol=1e-6)
    np.testing.assert_allclose(fields.shown_surface(pulled).stress, exact, rtol=1e-5)
    assert pulled.summary()[-1]["max_von_mises_kpa"] == pytest.approx(1e-3 * exact, rel=1e-5)


@pytest.mark.slow
def test_linear_tets_stretch_as_their_smoothed_strain_does():
    """One tet in bending shears and shrinks where the material around its edges does not: P1 is near P2, not 10 times off."""
    robot = geosim.generate.round_finger(length=30e-3, wall=2.5e-3).robot(NeoHookean(mu=MU), max_edge=8e-3)
    curved, flat = (
        geosim.solve(robot, geosim.Inflation(volume_ratio=[1.3]), solver=EnergyShapeSolver(element=element))
        for element in ("p2", "p1")
    )
    J = np.linalg.det(strain.deformations(robot, flat.nodes(-1)))
    assert 0.7 < J.min() < J.max() < 1.3
    assert 0.5 < flat.max_von_mises[-1] / curved.max_von_mises[-1] < 1.5
    assert 0.8 < flat.max_stretch[-1] / curved.max_stretch[-1] < 1.2


def test_smoothed_strain_of_a_homogeneous_stretch_is_that_stretch():
    vertices, tets = shapes.block((0.02, 0.01, 0.01), (2, 1, 1))
    robot = VolumetricRobot.from_tets(vertices, tets, material=NeoHookean(mu=MU), fixed=None)
    F = np.array([[1.5, 0.2, 0.0], [0.0, 0.8, 0.1], [0.0, 0.0, 0.9]])
    nodes = fields.rest_nodes(robot) @ F.T
    np.testing.assert_allclose(strain.deformations(robot, nodes), np.broadcast_to(F, (len(tets), 3, 3)), atol=1e-12)


def test_stretch_beyond_what_the_material_is_known_to_is_said(pulled):
    assert "The largest stretch, 2, is beyond 1.5, to which the material is known: frame 0, at" in pulled.message
    soft = pulled.robot.with_materials(NeoHookean(mu=MU))
    result = geosim.solve(soft, geosim.Passive(), pulled.environment, solver=pulled.solver)
    assert "beyond" not in result.message
