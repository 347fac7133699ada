"""The same hollow robot in every format of tet meshes is the same robot; what a file may not say is refused."""

from __future__ import annotations

import meshio
import numpy as np
import pytest
import trimesh

import geosim
from geosim.errors import InputError
from geosim.files.robot import load_robot
from geosim.files.tetmesh import read_mesh
from geosim.geometry.mesh import mesh_surfaces
from geosim.geometry.surface import check_surface

ROBOT = """
kind = "volumetric"
units = "mm"
chambers = "cavities"
[body]
mesh = "{}"
material = "ecoflex-00-30-fang2022"
[fixed]
plane = "x"
below = -29.9
"""
WRITERS = {
    "hollow.vtk": lambda path, mesh: meshio.vtk.write(path, mesh),
    "hollow.vtu": lambda path, mesh: meshio.vtu.write(path, mesh),
    "msh2.msh": lambda path, mesh: meshio.gmsh.write(path, mesh, fmt_version="2.2"),
    "msh4.msh": lambda path, mesh: meshio.gmsh.write(path, mesh, fmt_version="4.1"),
    "hollow.inp": lambda path, mesh: meshio.abaqus.write(path, mesh),
}


def tets():
    """A box of 60 mm with a cavity, positions in mm."""
    inner = trimesh.creation.box((44, 8, 8))
    inner.invert()
    surface = check_surface(trimesh.util.concatenate([trimesh.creation.box((60, 16, 16)), inner]), units="mm")
    mesh = mesh_surfaces([surface], max_edge=0.012)
    return mesh.vertices * 1e3, np.array(mesh.tets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hollow")
    points, cells = tets()
    for name, write in WRITERS.items():
        data = {"gmsh:physical": [np.full(len(cells), 3)], "gmsh:geometrical": [np.full(len(cells), 1)]}
        data = data if name.endswith(".msh") else {}
        write(folder / name, meshio.Mesh(points, [("tetra", cells)], cell_data=data))
    return folder


@pytest.mark.slow
def test_a_hollow_robot_is_the_same_in_every_format(folder):
    """The same tets, the same chamber, and hence the same shape."""
    tips = []
    for name in WRITERS:
        (folder / "robot.toml").write_text(ROBOT.format(name))
        robot = load_robot(folder / "robot.toml")
        assert robot.chamber_volumes == pytest.approx([44 * 8 * 8 * 1e-9], rel=1e-9), name
        solver = geosim.EnergyShapeSolver(element="p1")
        tips.append(geosim.solve(robot, geosim.Inflation(volume_ratio=1.1), solver=solver).tip[-1])
    np.testing.assert_allclose(tips, [tips[0]] * len(tips), rtol=0, atol=1e-9)


def test_sets_of_elements_are_regions_and_the_smallest_counts(folder):
    points, cells = tets()
    half = np.arange(len(cells) // 2)
    sets = {"all": [np.arange(len(cells))], "base": [half]}
    meshio.abaqus.write(folder / "sets.inp", meshio.Mesh(points, [("tetra", cells)], cell_sets=sets))
    _, _, regions, notices = read_mesh(folder / "sets.inp")
    assert np.array_equal(regions, np.where(np.arange(len(cells)) < len(half), 1, 0))
    assert notices == ("sets.inp: regions 0 = all, 1 = base",)


def test_a_region_that_is_no_whole_number_is_refused(folder):
    points, cells = tets()
    regions = np.zeros(len(cells))
    regions[5] = 0.5
    meshio.vtu.write(folder / "half.vtu", meshio.Mesh(points, [("tetra", cells)], cell_data={"region": [regions]}))
    with pytest.raises(InputError, match=r"the region of tet 5 is 0.5; write whole numbers into 'region'"):
        read_mesh(folder / "half.vtu")


def test_an_element_card_without_a_type_is_one_line(tmp_path):
    (tmp_path / "bare.inp").write_text("*NODE\n1, 0, 0, 0\n*ELEMENT, TY-1 -3D4\n1, 1, 1, 1, 1\n")
    with pytest.raises(InputError, match=r"bare\.inp' cannot be read \(TYPE not found"):
        read_mesh(tmp_path / "bare.inp")


def test_a_set_of_elements_without_a_name_is_refused(tmp_path):
    path = tmp_path / "bar.inp"
    nodes = "*Node\n1, 0, 0, 0\n2, 1, 0, 0\n3, 0, 1, 0\n4, 0, 0, 1\n"
    path.write_text(f"{nodes}*Element, type=C3D4\n1, 1, 2, 3, 4\n*Elset, elset\n1,\n")
    with pytest.raises(InputError, match="a set of elements has no name"):
        read_mesh(path)
