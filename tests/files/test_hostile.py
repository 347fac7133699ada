"""Files that ask for more than they hold, or hold other kinds of values than they should: one line, and at once."""

from __future__ import annotations

import struct
import tracemalloc

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
