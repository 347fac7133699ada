"""USD files hold what was solved, and pass the checks that USD itself has."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, NeoHookean, Obstacle

pxr = pytest.importorskip("pxr", reason="usd-core is not installed: pip install '.[usd]'")
from pxr import Usd, UsdGeom, UsdPhysics, UsdShade, UsdValidation  # noqa: E402

QUICK = EnergyShapeSolver(element="p1", check_stability=False)


def _problems(stage):
    """What the validators of USD say."""
    found = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    return [error.GetErrorAsString() for error in UsdValidation.ValidationContext(found).Validate(stage)]


@pytest.fixture(scope="module")
def result():
    """Two materials and a chamber, pressed against a ball in two commands."""
    vertices, tets = block((0.04, 0.012, 0.012), (4, 3, 3))
    middle = vertices[tets].mean(axis=1)
    inside = (np.abs(middle - (0.02, 0.006, 0.006)) < (0.01, 0.002, 0.002)).all(axis=1)
    regions = np.where(inside, 2, (middle[:, 2] > 0.004).astype(int))
    materials = {0: "ecoflex-00-30", 1: NeoHookean(mu=50e3, bulk_modulus=1e6)}
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, regions, material=materials, fixed=vertices[:, 0] < 1e-9, name="two layers"
    )
    ball = Obstacle.sphere((0.04, 0.006, -0.0055), 0.005)
    return geosim.solve(
        robot, geosim.Inflation(volume_ratio=[1.1, 1.2]), Environment(obstacles=ball, self_contact=False), solver=QUICK
    )


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd"])
def test_what_was_solved_is_read_back(result, tmp_path, suffix):
    stage = Usd.Stage.Open(str(result.save(tmp_path / f"bent{suffix}")))
    assert _problems(stage) == []
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert stage.GetDefaultPrim().GetPath() == "/two_layers"
    sim, skin = UsdGeom.TetMesh.Get(stage, "/two_layers/sim"), UsdGeom.Mesh.Get(stage, "/two_layers/skin")
    robot = result.robot
    used = np.flatnonzero(robot.body_vertices)
    for frame, code in enumerate((24.0, 48.0)):
        np.testing.assert_allclose(sim.GetPointsAttr().Get(code), result.frames[frame][used], atol=1e-8)
    np.testing.assert_allclose(sim.GetPointsAttr().Get(), robot.vertices[used], atol=1e-8)
    np.testing.assert_array_equal(used[np.array(sim.GetTetVertexIndicesAttr().Get())], robot.body_tets)
    assert len(UsdGeom.TetMesh.FindInvertedElements(sim, 48.0)) == 0
    faces = np.array(skin.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3)
    np.testing.assert_array_equal(np.unique(robot.skin)[faces], robot.skin)
    assert UsdGeom.Mesh.Get(stage, "/obstacles/obstacle_1").GetPointsAttr().GetNumTimeSamples() == 2


def test_the_surface_of_the_tets_looks_outward(result, tmp_path):
    """Skin and chamber walls enclose the volume of the body, as USD finds the faces itself."""
    stage = Usd.Stage.Open(str(result.save(tmp_path / "bent.usda")))
    sim = UsdGeom.TetMesh.Get(stage, "/two_layers/sim")
    points, faces = (np.array(a.Get()) for a in (sim.GetPointsAttr(), sim.GetSurfaceFaceVertexIndicesAttr()))
    a, b, c = points[faces].astype(float).transpose(1, 0, 2)
    volume = np.einsum("fi,fi->", a, np.cross(b, c)) / 6.0
    corners = result.robot.vertices[result.robot.body_tets]
    assert volume == pytest.approx(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 6.0, rel=1e-5)
    assert len(UsdGeom.TetMesh.ComputeSurfaceFaces(sim)) == len(faces)


def test_materials_have_their_names_and_regions(result, tmp_path):
    stage = Usd.Stage.Open(str(result.save(tmp_path / "bent.usda")))
    soft = UsdShade.Material.Get(stage, "/two_layers/materials/ecoflex_00_30").GetPrim()
    hard = UsdShade.Material.Get(stage, "/two_layers/materials/neo_hookean").GetPrim()
    assert UsdPhysics.MaterialAPI(soft).GetDensityAttr().Get() == pytest.approx(result.robot.materials[0].density)
    assert hard.GetAttribute("geosim:mu").Get() == [50e3]
    poisson = (3e6 - 100e3) / (6e6 + 100e3)
    assert hard.GetAttribute("physics:poissonsRatio").Get() == pytest.approx(poisson)
    assert hard.GetAttribute("physics:youngsModulus").Get() == pytest.approx(100e3 * (1.0 + poisson))
    subsets = UsdGeom.Subset.GetAllGeomSubsets(UsdGeom.TetMesh.Get(stage, "/two_layers/sim"))
    counts = [len(part.GetIndicesAttr().Get()) for part in subsets]
    assert counts == [int((result.robot.regions == region).sum()) for region in (0, 1)]


def test_rods_are_curves(tmp_path):
    robot = geosim.RodShellRobot(
        [[0.0, 0, 0], [0.01, 0, 0], [0.02, 0, 0]],
        edges=[[0, 1], [1, 2]],
        radius=1e-3,
        rod_material=geosim.LinearElastic(1e6, 0.4),
        fixed_vertices=[0, 1],
    )
    result = geosim.solve(robot, geosim.Passive(0.02), solver=geosim.RodShellStepper(dt=0.01))
    stage = Usd.Stage.Open(str(result.save(tmp_path / "rod.usda")))
    assert _problems(stage) == []
    curves = UsdGeom.BasisCurves.Get(stage, f"{stage.GetDefaultPrim().GetPath()}/rods")
    assert list(curves.GetCurveVertexCountsAttr().Get()) == [2, 2]
    assert curves.GetWidthsAttr().Get()[0] == pytest.approx(2e-3)
