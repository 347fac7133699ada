"""Files of results: nothing is lost, nothing is half-written, units are as promised."""

from __future__ import annotations

import csv
import dataclasses
import json
import pickle
from xml.etree import ElementTree

import meshio
import numpy as np
import pytest
import trimesh
from archives import changed
from bending import LENGTH, WIDTH, bend, bent_result

import geosim
from geosim import InputError, Result, Select, Status
from geosim.result import FIELDS
from geosim.show import fields
from geosim.writing import write_vtu

HEADER = (
    "frame,load,status,volume_ratio_1,volume_mm3_1,pressure_kpa_1,tip_x_mm,tip_y_mm,tip_z_mm,max_displacement_mm,"
    "body_volume_ratio,iterations,seconds,bend_angle_deg,twist_angle_deg,max_stretch,max_von_mises_kpa,"
    "obstacle_force_x_n_1,obstacle_force_y_n_1,obstacle_force_z_n_1"
)


@pytest.fixture(scope="module")
def result() -> Result:
    return bent_result()


def same(a: object, b: object) -> bool:
    """Equality by value, arrays and dataclasses included."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if hasattr(a, "keys"):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def test_npz_round_trip_gives_back_an_equal_result(result, tmp_path):
    path = result.save(tmp_path / "r.npz")
    back = geosim.load_result(path)
    for name in (
        "status",
        "message",
        "converged",
        "times",
        "frames",
        "mid_edge_frames",
        "robot",
        "environment",
        "solver",
        "trace",
        "extra",
        "obstacle_held",
        *FIELDS,
    ):
        assert same(getattr(result, name), getattr(back, name)), name
    assert np.array_equal(result.surface().vertices, back.surface().vertices)


def test_npz_keeps_what_a_rule_selected_and_needs_no_pickle(result, tmp_path):
    load = geosim.Load.force(Select.plane("x", above=LENGTH - 1e-6), (0, 0, 1))
    gone = dict.fromkeys(("obstacle_forces", "obstacle_moments", "obstacle_poses", "obstacle_held"))
    changed = dataclasses.replace(result, environment=geosim.Environment(loads=[load]), **gone)
    back = geosim.load_result(changed.save(tmp_path / "r.npz"))
    assert np.array_equal(back.environment.loads[0].where, result.robot.tip)
    with np.load(tmp_path / "r.npz", allow_pickle=False) as archive:
        assert json.loads(str(archive["header"]))["geosim"] == geosim.__version__


def test_npz_of_straight_elements_and_of_no_frames(result, tmp_path):
    straight = bent_result(curved=False)
    assert geosim.load_result(straight.save(tmp_path / "s.npz")).mid_edge_frames.shape[1] == 0
    n = len(result.robot.vertices)
    none = Result(Status.NOT_CONVERGED, "stuck", False, np.empty(0), np.empty((0, n, 3)), robot=result.robot)
    assert geosim.load_result(none.save(tmp_path / "n.npz")).frames.shape == (0, n, 3)
    with pytest.raises(InputError, match="no frame"):
        none.save(tmp_path / "n.vtu")
    assert (none.save(tmp_path / "n.csv")).read_text(encoding="utf-8").splitlines()[1].split(",")[2] == "NOT_CONVERGED"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a readable"),
        (b"PK\x03\x04 cut short", "not a readable"),
        (None, "no such result"),
        (pickle.dumps({"a": 1}), "not a readable"),
    ],
)
def test_damaged_archives_are_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        geosim.load_result(path)
    assert "bad.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_foreign_archives_and_types_are_refused(result, tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="not a geosim result"):
        geosim.load_result(tmp_path / "other.npz")
    saved = result.save(tmp_path / "r.npz")
    for change, words in (
        ({"robot": {"type": "os.system", "fields": {}}}, "not a data type"),
        ({"format": 99}, "newer"),
        ({"status": "HAPPY"}, "status = 'HAPPY'"),
        ({"robot": {}}, "damaged"),
    ):
        path = changed(saved, tmp_path / "x.npz", lambda arrays, header, change=change: header.update(change))
        with pytest.raises(InputError, match=words):
            geosim.load_result(path)


def test_vtu_holds_quadratic_tets_displacement_and_stretch_in_metres(result, tmp_path):
    mesh = meshio.read(result.save(tmp_path / "r.vtu"))
    robot = result.robot
    assert mesh.cells[0].type == "tetra10"
    assert np.array_equal(mesh.cells[0].data, robot.p2_tets)
    assert np.allclose(mesh.points - mesh.point_data["displacement"], fields.rest_nodes(robot), atol=1e-16)
    assert np.array_equal(mesh.points, result.nodes(-1))
    assert np.array_equal(mesh.cell_data["region"][0], np.zeros(robot.is_body.sum()))
    assert mesh.point_data["reactions"].shape == mesh.points.shape
    assert np.array_equal(mesh.point_data["displacement"], result.nodes(-1) - fields.rest_nodes(robot))
    assert np.array_equal(mesh.cell_data["max_stretch"][0], fields.max_stretch(result, -1))
    straight = meshio.read(bent_result(curved=False).save(tmp_path / "s.vtu"))
    assert straight.cells[0].type == "tetra"


def test_vtk_reads_the_vtu(result, tmp_path):
    """Blocks of 32 kB, one of them full, are what the library reads that ParaView is built on."""
    pyvista = pytest.importorskip("pyvista", reason="pyvista is not installed")
    path, size = tmp_path / "w.vtu", 2**12  # values of 8 bytes that fill a block
    points = np.random.default_rng(0).standard_normal((size, 3))
    cells = [("tetra", np.arange(size).reshape(-1, 4)), ("line", np.array([[0, 5], [3, 1]]))]
    fields_of_cells = {"region": [np.arange(size // 4), np.array([7, 8])]}
    write_vtu(path, points, cells, {"first": np.arange(float(size)), "none": np.zeros((size, 3))}, fields_of_cells)
    mesh = pyvista.read(path)
    assert np.array_equal(mesh.points, points)
    assert np.array_equal(mesh["first"], np.arange(float(size)))
    assert np.array_equal(mesh["region"], np.concatenate(fields_of_cells["region"]))
    assert mesh.celltypes[[0, -1]].tolist() == [10, 3]
    assert np.array_equal(mesh.get_cell(len(cells[0][1])).point_ids, [0, 5])


def test_the_largest_stretch_of_a_bent_bar_is_one_plus_height_over_radius(result):
    # bend() stretches fibres along the arc by (R + z) / R and nothing across: the closed form at every centroid.
    angle = np.radians(80.0)
    z = result.robot.vertices[result.robot.body_tets].mean(axis=1)[:, 2]
    assert np.allclose(fields.max_stretch(result, -1), 1.0 + z * angle / LENGTH, rtol=2e-3)
    # the constant gradient of straight elements is coarser, but for a homogeneous stretch both are exact
    stretched = dataclasses.replace(bent_result(1, curved=False), frames=result.robot.vertices[None] * [1.3, 0.9, 0.9])
    assert np.allclose(fields.max_stretch(stretched, -1), 1.3, rtol=1e-12)


def test_pvd_lists_every_frame(result, tmp_path):
    path = result.save(tmp_path / "frames.pvd")
    sets = ElementTree.parse(path).getroot().findall(".//DataSet")
    assert [float(s.get("timestep")) for s in sets] == result.times.tolist()
    for i, s in enumerate(sets):
        assert np.array_equal(meshio.read(tmp_path / s.get("file")).points, result.nodes(i))


def test_vtp_is_skin_and_chamber_wall_in_metres(result, tmp_path):
    import base64

    root = ElementTree.parse(result.save(tmp_path / "r.vtp")).getroot()
    array = {}
    for a in root.iter("DataArray"):
        raw = base64.b64decode(a.text)
        assert int.from_bytes(raw[:8], "little") == len(raw) - 8
        kind = {"Float64": "<f8", "Int64": "<i8"}[a.get("type")]
        array[a.get("Name")] = np.frombuffer(raw[8:], dtype=kind).reshape(-1, int(a.get("NumberOfComponents", "1")))
    triangles, part = array["connectivity"].reshape(-1, 3), array["part"].ravel()
    skin = trimesh.Trimesh(array["Points"], triangles[part == 0], process=False)
    wall = trimesh.Trimesh(array["Points"], triangles[part == 1], process=False)
    exact = LENGTH * WIDTH**2 * (1 + np.radians(80) * WIDTH / 2 / LENGTH)  # Pappus
    assert skin.volume == pytest.approx(exact, rel=1e-3)
    assert 0 < wall.volume < skin.volume
    assert array["offsets"][-1, 0] == triangles.size


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".ply"])
@pytest.mark.parametrize(("units", "scale"), [(None, 1e3), ("m", 1.0), ("cm", 1e2), ("in", 1 / 0.0254)])
def test_surfaces_are_closed_and_in_the_unit_asked_for(result, tmp_path, suffix, units, scale):
    mesh = trimesh.load(result.save(tmp_path / f"r{suffix}", units))
    assert mesh.is_watertight
    exact = LENGTH * WIDTH**2 * (1 + np.radians(80) * WIDTH / 2 / LENGTH)
    assert mesh.volume == pytest.approx(exact * scale**3, rel=1e-3)


def test_summary_has_the_exact_header_and_numbers(result, tmp_path):
    text = result.save(tmp_path / "summary.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == HEADER
    rows = list(csv.DictReader(text.splitlines()))
    assert [r["frame"] for r in rows] == ["0", "1", "2", "3"]
    last = rows[-1]
    tip = bend(np.array([[LENGTH, 0.0, WIDTH / 2]]), np.radians(80))[0] * 1e3
    assert [float(last[f"tip_{a}_mm"]) for a in "xyz"] == pytest.approx(tip, abs=1e-6)
    assert float(last["volume_mm3_1"]) == pytest.approx(1.4 * result.robot.chamber_volumes[0] * 1e9)
    assert float(last["pressure_kpa_1"]) == 4.0
    assert (last["iterations"], float(last["seconds"])) == ("3", 2.25)
    body = result.robot.body_vertices
    far = np.linalg.norm(result.frames[-1] - result.robot.vertices, axis=1)[body].max() * 1e3
    assert float(last["max_displacement_mm"]) == pytest.approx(far)
    assert result.summary()[2]["volume_ratio_1"] == pytest.approx(1.3)


def test_status_in_the_summary(result):
    stopped = bent_result(
        status=Status.PRESSURE_LIMIT, message="stop", converged=False, crossings=[0, 2, 0, 0], stable=[1, 1, 0, 1]
    )
    assert [r["status"] for r in stopped.summary()] == ["CONVERGED", "CROSSED", "UNSTABLE", "PRESSURE_LIMIT"]


@pytest.mark.parametrize(
    ("name", "units", "words"),
    [
        ("r.txt", None, r"must end in one of .*\.vtu"),
        ("missing/r.npz", None, "does not exist"),
        ("r.stl", "furlong", "furlong"),
        ("r.vtu", "mm", "always in metres"),
    ],
)
def test_wrong_targets_are_refused(result, tmp_path, name, units, words):
    with pytest.raises(InputError, match=words):
        result.save(tmp_path / name, units)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_litter(result, tmp_path, monkeypatch):
    path = result.save(tmp_path / "r.npz")
    before = path.read_bytes()
    broken = dataclasses.replace(result, extra={"thing": object()})
    with pytest.raises(InputError, match=r"extra\.thing"):
        broken.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
