"""Stress as a field of files and pictures, and the stretch that a material is known to."""

import numpy as np
import pytest
import shapes

import geosim
from geosim import EnergyShapeSolver, Environment, NeoHookean, Prescribed, Select, VolumetricRobot
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


def test_stretch_beyond_what_the_material_is_known_to_is_said(pulled):
    assert "The largest stretch, 2, is beyond 1.5, to which the material is known." in pulled.message
    soft = pulled.robot.with_materials(NeoHookean(mu=MU))
    result = geosim.solve(soft, geosim.Passive(), pulled.environment, solver=pulled.solver)
    assert "beyond" not in result.message
