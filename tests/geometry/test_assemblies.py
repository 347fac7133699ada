"""Parts of 3MF and GLB assemblies come by name or number, in metres, in their place."""

from __future__ import annotations

import re
import zipfile

import numpy as np
import pytest
import trimesh

from geosim import VolumetricRobot
from geosim.apps.moulds.making import write_3mf
from geosim.errors import InputError
from geosim.geometry.imprint import as_manifold
from geosim.geometry.surface import check_surface, read_surface

BODY, CHAMBER = trimesh.creation.box((0.06, 0.02, 0.02)), trimesh.creation.box((0.04, 0.01, 0.01))


@pytest.fixture
def assembly(tmp_path):
    """The same robot as 3MF, with the chamber moved by its item, and as GLB."""
    solids = {n: as_manifold(m.vertices, m.faces) for n, m in (("finger", BODY), ("air", CHAMBER))}
    write_3mf(solids, tmp_path / "robot.3mf")
    scene = trimesh.Scene({"finger": BODY, "air": CHAMBER})
    (tmp_path / "robot.glb").write_bytes(scene.export(file_type="glb"))
    return tmp_path


@pytest.mark.parametrize("suffix", ["3mf", "glb"])
def test_a_robot_of_two_parts_of_one_file(assembly, suffix):
    file = str(assembly / f"robot.{suffix}")
    robot = VolumetricRobot.from_surfaces(
        f"{file}#finger",
        [f"{file}#air"],
        material="ecoflex-00-30-fang2022",
        fixed=lambda x: x[:, 0] < -0.0299,
        max_edge=0.01,
    )
    assert robot.chamber_volumes == pytest.approx([4e-6], rel=1e-6)
    assert robot.body_volume == pytest.approx(20e-6, rel=1e-6)
    assert robot.region_names == {0: "finger", 1: "air"}
    with pytest.raises(InputError, match=r"holds 2 solids, 1 = '(finger|air)'"):
        read_surface(file)
    with pytest.raises(InputError, match="no solid is called 'palm'"):
        read_surface(f"{file}#palm")


def test_transforms_and_units_of_3mf_are_followed(assembly):
    """An inch more along y, from a component that is turned by a right angle about z and an item that moves it."""
    with zipfile.ZipFile(assembly / "robot.3mf") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    model = parts["3D/3dmodel.model"].decode().replace('unit="millimeter"', 'unit="inch"')
    turned = (
        '<object id="3" name="both"><components><component objectid="1" transform="0 1 0 -1 0 0 0 0 1 0 0 0"/>'
        "</components></object></resources>"
    )
    model = model.replace("</resources>", turned)
    model = model.replace("<build>", '<build><item objectid="3" transform="1 0 0 0 1 0 0 0 1 0 1 0"/>')
    with zipfile.ZipFile(assembly / "inches.3mf", "w") as file:
        for name, content in (parts | {"3D/3dmodel.model": model.encode()}).items():
            file.writestr(name, content)
    found = check_surface(f"{assembly / 'inches.3mf'}#both")
    assert np.ptp(found.vertices, axis=0) == pytest.approx(np.array([20, 60, 20]) * 0.0254)
    assert found.vertices.mean(axis=0) == pytest.approx([0, 0.0254, 0], abs=1e-9)
    assert found.volume > 0


@pytest.mark.parametrize("suffix", ["3mf", "glb"])
def test_a_damaged_assembly_is_refused_in_one_line(assembly, suffix):
    file = assembly / f"robot.{suffix}"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(InputError, match=f"cannot be read as {suffix.upper()}"):
        read_surface(file)


@pytest.mark.parametrize("corner", ["-1", "8", "99"])
def test_a_triangle_of_no_vertex_is_refused(assembly, corner):
    """A box has the vertices 0 to 7; -1 is not the last of them."""
    with zipfile.ZipFile(assembly / "robot.3mf") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    model = re.sub(rb'v3="\d+"', f'v3="{corner}"'.encode(), parts["3D/3dmodel.model"], count=1)
    with zipfile.ZipFile(assembly / "robot.3mf", "w") as file:
        for name, content in (parts | {"3D/3dmodel.model": model}).items():
            file.writestr(name, content)
    with pytest.raises(InputError, match=f"a triangle names vertex {corner} of 8"):
        read_surface(f"{assembly / 'robot.3mf'}#finger")


def test_an_assembly_that_says_to_unpack_to_gigabytes_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.3mf", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("3D/3dmodel.model", b" " * 100_000_000)
    with pytest.raises(InputError, match=r"says to hold 0\.1 GB in 0.0\d* MB"):
        read_surface(tmp_path / "bomb.3mf")
