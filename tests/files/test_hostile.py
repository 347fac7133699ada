"""Files that ask for more than they hold, or hold other kinds of values than they should: one line, and at once."""

from __future__ import annotations

import struct
import tracemalloc
import warnings

import numpy as np
import pytest
from archives import changed
from bending import BAR_FILE, bent_result, save_bar

import geosim
from geosim import InputError, compare
from geosim.errors import GeosimError
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.files.tetmesh import read_mesh
from geosim.geometry.surface import read_surface
from geosim.rods import files
from geosim.rods.files import read_table

PLY = """ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
0 1 0
3 0 1 {}
"""


def test_a_result_file_may_not_ask_for_a_million_chambers_nor_unpack_to_gigabytes(tmp_path):
    path = bent_result(1).save(tmp_path / "r.npz")
    design = {"design": "pneunet", "parameters": {"map": [["chambers", 1_000_000]]}}
    changed(path, tmp_path / "many.npz", lambda arrays, header: header["robot"]["fields"].update(design=design))
    with pytest.raises(InputError, match="chambers = 1000000 must be at most 200"):
        geosim.load_result(tmp_path / "many.npz")
    with np.load(path) as archive:
        np.savez_compressed(tmp_path / "bomb.npz", **archive, zeros=np.zeros(10_000_000))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"bomb.npz: says to hold 0.08\d* GB in .* MB"):
        geosim.load_result(tmp_path / "bomb.npz")
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_a_workbook_is_not_read_beyond_its_cells(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    for write_only in (True, False):  # without and with its size at the head
        book = openpyxl.Workbook(write_only=write_only)
        sheet = book.create_sheet() if write_only else book.active
        for i in range(60):
            sheet.append([i, 2.0 * i])
        path = tmp_path / f"{write_only}.xlsx"
        book.save(path)
        assert read_table(path)[1].shape == (60, 2)
        with monkeypatch.context() as patch:
            patch.setattr(files, "MOST_CELLS", 100)
            with pytest.raises(InputError, match="cells; leave out what is not needed"):
                read_table(path)
        with monkeypatch.context() as patch:
            patch.setattr(files, "MOST_PACKED", 1e-3)
            patch.setattr("geosim.resources.ALWAYS_ALLOWED_BYTES", 1)
            with pytest.raises(InputError, match="says to hold"):
                read_table(path)


def test_meshes_and_scans_with_wild_numbers_are_refused(tmp_path):
    (tmp_path / "m.csv").write_text("time,a_x,a_y,a_z\n")
    with pytest.raises(InputError, match=r"m\.csv: table file without rows"):
        compare.read_markers(tmp_path / "m.csv", units="m")
    for index in (4294967295, -1, 99):
        (tmp_path / "w.ply").write_text(PLY.format(index))
        for read in (lambda p: compare.read_scan(p, "mm"), lambda p: read_surface(p, "mm")):
            with pytest.raises(InputError, match=r"names vertex .* of 3"):
                read(tmp_path / "w.ply")
    head = b"$MeshFormat\n4.1 1 8\n" + struct.pack("<i", 1) + b"\n$EndMeshFormat\n$Nodes\n"
    many = struct.pack("<4Q", 1, 2**55, 1, 2**55) + struct.pack("<iiiQ", 3, 1, 0, 2**55)
    (tmp_path / "huge.msh").write_bytes(head + many)
    with pytest.raises(InputError, match=r"cannot be read \(Unable to allocate"):
        read_mesh(tmp_path / "huge.msh")


@pytest.mark.parametrize("value", ["[]", "[1, 2]", "{}", "2020-01-01"])
def test_values_of_other_kinds_are_refused(tmp_path, value):
    save_bar(tmp_path)
    path = tmp_path / "bar.toml"
    path.write_text(BAR_FILE.replace('units = "mm"', f"units = {value}"))
    with pytest.raises(InputError, match="units = "):
        load_problem(path)
    for text in (
        f"units = {value}\n[inflation]\nvolume_ratio = 1.1",
        f"[inflation]\ngas = true\nambient_kpa = {value}",
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=r"units|ambient"):
            load_actuation(path)
    path.write_text(f"[inflation]\npressure_kpa = [[1.0], [{value}]]")
    with pytest.raises(InputError, match="pressure_kpa"):
        load_actuation(path)
    path.write_text(f"model = {value}\n")
    with pytest.raises(InputError, match=r"model = .* is unknown"):
        geosim.materials.load_material(path)


@pytest.mark.parametrize(
    "read",
    [load_problem, load_actuation, geosim.materials.load_material, lambda p: geosim.sweep(p, out=p.with_name("out"))],
)
def test_integers_of_any_length_are_refused_in_one_line(tmp_path, read):
    """Python converts up to 4300 digits, and TOML may hold more."""
    path = tmp_path / "long.toml"
    path.write_text("kind = " + "9" * 6000)
    with pytest.raises(InputError, match=r"long.toml: not valid TOML: .*6000 digits") as caught:
        read(path)
    assert "set_int_max" not in str(caught.value)


def test_floats_of_other_sizes_in_an_archive_are_refused_or_read_as_doubles(tmp_path):
    """Half precision holds up to 65504: limits of arrays are compared as doubles."""
    path = bent_result(2).save(tmp_path / "r.npz")
    for kind in (np.float16, np.float32, np.longdouble):
        edit = lambda a, h, kind=kind: a.update({"result.frames": a["result.frames"].astype(kind)})  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if kind is np.longdouble:
                assert geosim.load_result(changed(path, tmp_path / "o.npz", edit)).frames.dtype == np.float64
            else:  # and rounded so that the tip is no longer theirs
                with pytest.raises(InputError, match=r"tip is .* away"):
                    geosim.load_result(changed(path, tmp_path / "o.npz", edit))


@pytest.mark.parametrize("value", ["a" * 10_000, list(range(10_000)), ["x" * 5_000], "b c" * 4_000])
def test_messages_quote_a_short_piece_of_a_value(value):
    for call in (
        lambda: geosim.materials.get(value),
        lambda: geosim.EnergyShapeSolver(element=value),
        lambda: geosim.Inflation(volume_ratio=value, pressure=1.0),
        lambda: geosim.Select.plane(value, below=1.0),
        lambda: geosim.load_robot(f"{value}.toml"),
    ):
        with pytest.raises(InputError) as told:
            call()
        assert len(str(told.value)) < 700
        assert "\n" not in str(told.value)


def test_a_message_keeps_its_words_and_paths():
    text = (
        "body surface (/a/path/"
        + "folder/" * 30
        + "of.stl): the robot's mesh, "
        + "with many words, " * 20
        + "isn't closed"
    )
    assert str(GeosimError(text)) == text
    assert str(GeosimError("one\n  two")) == "one two"
    assert len(str(GeosimError("word " * 5000))) < 2100


FITTED = """
[material]
model = "neo-hookean"
mu = 20000.0
stretch_range = [1.0, 2.0]
[calibration]
confidence = 0.95
modulus_error = nan
interval_mu = [19e3, inf]
"""


def test_a_material_file_of_impossible_numbers_is_refused(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text(FITTED)
    assert geosim.materials.load_material(path).mu == 20000.0
    for old, new, words in (
        ("confidence = 0.95", "confidence = nan", "confidence = nan"),
        ("confidence = 0.95", "confidence = 95", "confidence = 95"),
        ("[19e3, inf]", '"1"', "interval_mu"),
        ("[19e3, inf]", "[2.0, 1.0]", "interval_mu"),
        ("modulus_error = nan", 'modulus_error = "x"', "modulus_error = 'x'"),
        ("modulus_error = nan", "modulus_error = -1.0", "modulus_error"),
        ("mu = 20000.0", "mu = 20000.0\ndensity = 1e30", "density = 1e.30"),
        ("mu = 20000.0", "mu = 20000.0\ndensity = nan", "density = nan"),
    ):
        path.write_text(FITTED.replace(old, new, 1))
        with pytest.raises(InputError, match=words) as caught:
            geosim.materials.load_material(path)
        assert "m.toml" in str(caught.value)


def test_a_hold_whose_stress_rises_is_no_relaxation():
    time = np.linspace(0.0, 100.0, 200)
    for stress in (1.0 + 0.01 * time, 1.0 - 0.5 * np.exp(-time / 10.0)):
        with pytest.raises(InputError, match="the stress rises by"):
            geosim.calibrate.fit_relaxation(time, stress)
    noise = 1e-3 * np.random.default_rng(0).standard_normal(200)
    assert geosim.calibrate.fit_relaxation(time, 1.0 + noise).shares.sum() < 0.01  # nothing relaxes: no mistake
    falling = geosim.calibrate.fit_relaxation(time, 1.0 - 0.3 * (1.0 - np.exp(-time / 10.0)))
    assert falling.factor(100.0) == pytest.approx(0.7, abs=0.005)


def test_cycles_of_no_samples_are_refused():
    for count in (0, 1, 15):
        with pytest.raises(InputError, match=f"fit_cycles: {count} samples"):
            geosim.calibrate.fit_cycles(np.ones(count), np.ones(count))


def test_millions_of_commands_are_refused_at_once(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[passive]\nduration = 1.0\nsteps = 10000000\n")
    tracemalloc.start()
    with pytest.raises(InputError, match="at most 1000000"):
        load_actuation(path)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_a_chamber_thinner_than_any_tet_is_refused_before_it_is_meshed():
    """Walls are measured first: 0.2 um over 400 mm^2 are 1e10 squares."""
    trimesh = pytest.importorskip("trimesh")
    body = trimesh.creation.box((0.03, 0.02, 0.02))
    for thin, bodies in (
        (trimesh.creation.box((0.02, 0.01, 2e-7)), body),
        (None, trimesh.creation.box((0.03, 0.02, 2e-7))),
    ):
        with pytest.raises(InputError, match=r"is 0\.0002 mm thin in the mean"):
            geosim.VolumetricRobot.from_surfaces(
                bodies, [] if thin is None else [thin], material="rtv615", fixed=geosim.Select.plane("x", below=-0.0149)
            )


def test_sections_of_other_counts_are_refused():
    for call in (
        lambda: geosim.Section.tube([2e-3] * 3, [1e-3] * 2),
        lambda: geosim.Section.rectangle([1e-3] * 2, [1e-3] * 3),
    ):
        with pytest.raises(InputError, match="do not go together"):
            call()
    assert geosim.Section.tube([2e-3] * 3, 1e-3).area.shape == (3,)
