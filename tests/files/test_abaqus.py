"""INP files with parts and an assembly: numbering, sets, surfaces, couplings, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import geosim
from geosim.errors import InputError
from geosim.files.abaqus import read_abaqus
from geosim.files.tetmesh import read_mesh

TEXT = """*Heading
*Part, name=Block
*Node
10, 0., 0., 0.
20, 1., 0., 0.
30, 0., 1., 0.
40, 0., 0., 1.
50, 1., 1., 1.
99, 9., 9., 9.
*Element, type=C3D4H
7, 10, 20, 30, 40
9, 20, 30, 40, 50
*Elset, elset=All, generate
7, 9, 2
*Elset, elset=Hard
9,
*Solid Section, elset=All, material=A
,
*Solid Section, elset=Hard, material=B
,
*End Part
*Assembly, name=Assembly
*Instance, name=One, part=Block
0., 0., 5.
*End Instance
*Node
1, 0.5, 0.5, 6.
*Nset, nset=Point
1,
*Nset, nset=Low, instance=One
10, 20, 30
*Elset, elset=_Side_S3, internal, instance=One
9,
*Surface, type=ELEMENT, name=Side
_Side_S3, S3
*Coupling, constraint name=Grip, ref node=Point, surface=Side
*Kinematic
*End Assembly
"""


def written(path, text=TEXT):
    path.write_text(text, encoding="utf-8")
    return path


def test_mesh_sets_and_coupling(tmp_path):
    """Numbers of the file become rows; the assembly's own node 1 is the reference point, no vertex."""
    model = read_abaqus(written(tmp_path / "block.inp"))
    np.testing.assert_array_equal(model.vertices[:, 2], [5, 5, 5, 6, 6])
    np.testing.assert_array_equal(model.tets, [[0, 1, 2, 3], [1, 2, 3, 4]])
    np.testing.assert_array_equal(model.regions, [0, 1])
    assert model.sections == ("all", "hard")
    np.testing.assert_array_equal(model.node_sets["low"], [0, 1, 2])
    assert "point" not in model.node_sets
    (grip,) = model.couplings
    assert grip.name == "Grip"
    np.testing.assert_array_equal(grip.point, [0.5, 0.5, 6.0])
    np.testing.assert_array_equal(grip.vertices, [2, 3, 4])  # S3: corners 2, 3 and 4 of the element
    group = grip.group(1e-3, displacement=(0, 0, 1e-4))
    assert isinstance(group, geosim.RigidGroup)
    np.testing.assert_allclose(group.point, [0.5e-3, 0.5e-3, 6e-3])
    vertices, tets, regions, notices = read_mesh(tmp_path / "block.inp")
    np.testing.assert_array_equal(vertices, model.vertices)
    np.testing.assert_array_equal(tets, model.tets)
    np.testing.assert_array_equal(regions, model.regions)
    assert "0 = all, 1 = hard" in notices[0]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("*Instance, name=One, part=Block", "*Instance, name=One, part=Brick", "no instance"),
        ("C3D4H", "C3D8", "only tetrahedra"),
        ("7, 10, 20, 30, 40", "7, 10, 20, 30, 41", "node 41"),
        ("9, 20, 30, 40, 50\n", "9, 20, 30\n", "one has not"),
        ("surface=Side", "surface=Other", "the coupling needs"),
        ("7, 9, 2", "7, 8, 0", "in steps of 0"),
        ("10, 0., 0., 0.", "10, 0., x, 0.", "cannot be read"),
        ("0., 0., 5.", "0., 0., 5.\n0., 0., 0., 0., 0., 1., 90.", "turned"),
        ("_Side_S3, internal, instance=One\n9,", "_Side_S3, internal, instance=One\n8,", "element 8"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, old, new, says):
    assert old in TEXT
    with pytest.raises(InputError, match=says) as caught:
        read_abaqus(written(tmp_path / "block.inp", TEXT.replace(old, new)))
    assert "\n" not in str(caught.value)


@pytest.mark.reference
def test_a_published_cylinder(reference_data):
    folder = reference_data / "robots" / "metacylinder"
    model = read_abaqus(folder / "cylinder_linear.inp")
    assert (len(model.vertices), len(model.tets)) == (2667, 13942)
    (top,) = model.couplings
    np.testing.assert_allclose(top.point, [0, 0, 40], atol=1e-9)
    np.testing.assert_allclose(model.vertices[top.vertices, 2], 40.0)
    assert model.vertices[model.node_sets["bottom_surface"], 2].max() == 0.0
    assert len(json.loads((folder / "poses_to_predict.json").read_text(encoding="utf-8"))) == 4


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "*Solid Section, elset=All",
            "*Solid Section, elset=None",
            "a solid section names the set 'none', which is not",
        ),
        ("_Side_S3, S3\n", "_Side_S9, S3\n", "cannot be read .KeyError '_side_s9'"),
        ("_Side_S3, S3\n", "_Side_S3, S9\n", "cannot be read .IndexError"),
        ("_Side_S3, S3\n", "_Side_S3, Sx\n", "cannot be read .ValueError"),
        ("*Nset, nset=Point\n1,\n", "*Nset, nset=Point\n", "cannot be read .IndexError"),
    ],
)
def test_names_of_nothing_are_refused_in_one_line(tmp_path, old, new, words):
    assert old in TEXT
    with pytest.raises(InputError, match=words):
        read_abaqus(written(tmp_path / "block.inp", TEXT.replace(old, new)))
