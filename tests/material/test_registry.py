"""Every law of the registry works everywhere, and is named nowhere else: adding one touches material/laws.py alone."""

from __future__ import annotations

import numpy as np
import pytest
from geosim.calibrate import MaterialTest, compare_models, fit, nominal_stress
from geosim.materials import load_material
from shapes import block

import geosim
from geosim.material.laws import LAWS, material_from_dict
from geosim.material.tensors import cofactor, row, tangent

MODES = ("uniaxial", "equibiaxial", "pure-shear")


def example(name: str) -> geosim.material.materials.Hyperelastic:
    """A material of every law: moduli that fall from 40 kPa, shapes of 4."""
    law = LAWS[name]
    known = law.declared().values()
    return law.of_constants(np.array([4e4 / 50.0**i if c.unit == "Pa" else 4.0 for i, c in enumerate(known)]))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("isochoric", [True, False])
def test_rest_is_stress_free_with_the_stated_shear_modulus(name, isochoric):
    """`shear_modulus` of the class is that of its W, and every W vanishes at rest."""
    material = example(name)
    F, cof, P, A = np.eye(3), np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9))
    W = tangent(row(material, 1e3, isochoric=isochoric), F, cofactor(F, cof), cof, P, A, np.empty((4, 3, 3)))
    assert pytest.approx(0.0, abs=1e-10) == W
    np.testing.assert_allclose(P, 0.0, atol=1e-10)
    assert 1e3 * A[1, 1] == pytest.approx(material.shear_modulus, rel=1e-9)


@pytest.fixture(scope="module")
def bar():
    """A bar 4 cm long, held at one end, hanging under its weight; its material is to be replaced."""
    points, tets = block((0.04, 0.01, 0.01), (4, 1, 1))
    held, end = geosim.Select.plane("x", below=1e-9), geosim.Select.plane("x", above=0.0399)
    return lambda material: geosim.VolumetricRobot.from_tets(
        points, tets, np.zeros(len(tets), int), material=material, fixed=held, tip=end
    )


@pytest.mark.parametrize("solver", [geosim.EnergyShapeSolver(element="p1"), geosim.ProjectiveShapeSolver()])
@pytest.mark.parametrize("name", LAWS)
def test_small_strains_know_only_the_shear_modulus(bar, name, solver):
    """Under its weight (strain 1.5e-4) a bar of any law sags as one of the neo-Hookean material of its shear modulus.

    Linear elements change their volume a little, against which the laws are not equally stiff.
    """
    material = example(name)
    hang = geosim.Environment(gravity=(0.981, 0, 0), self_contact=False)
    alike = geosim.NeoHookean(mu=material.shear_modulus)
    tips = [geosim.solve(bar(m), geosim.Passive(), hang, solver=solver).tip[-1, 0] - 0.04 for m in (material, alike)]
    assert tips[1] > 1e-6
    assert tips[0] == pytest.approx(tips[1], rel=0.05)


@pytest.mark.parametrize("name", LAWS)
def test_calibration_finds_the_law_by_its_name(name):
    """Exact curves of a material in three modes return its stress, and its name stands in the table of models."""
    material = example(name)
    stretch = np.linspace(1.05, 1.6, 12)
    tests = [MaterialTest(m, stretch, nominal_stress(name, material.constants(), m, stretch)) for m in MODES]
    found = fit(tests, name)
    assert found.model == name
    assert found.rms < 1e-5
    assert found.material.shear_modulus == pytest.approx(material.shear_modulus, rel=1e-3)
    if name == next(iter(LAWS)):
        assert {c.model for c in compare_models(tests).calibrations} == set(LAWS)


@pytest.mark.parametrize("name", LAWS)
def test_files_hold_the_law_by_its_name(tmp_path, name):
    """to_dict and material files give the same material; `geosim` has the class by its name."""
    material = example(name)
    assert material_from_dict(material.to_dict()) == material
    lines = [f"{k} = {list(v) if isinstance(v, tuple) else repr(v)}" for k, v in material.to_dict().items()]
    (tmp_path / "mine.toml").write_text("\n".join(lines).replace("'", '"') + "\n")
    assert load_material(tmp_path / "mine.toml") == material
    assert getattr(geosim, type(material).__name__) is type(material)
