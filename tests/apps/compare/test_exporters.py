"""Files of twelve exporters: read to the last digit with gaps as nan, or refused with line and column."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from exporters import CLOUD, MARKERS, TAKE, Take, c3d, cloud, deeplabcut, motive, qualisys, table, trc, vicon
from geosim.compare import Markers, read_markers, read_scan

from geosim import InputError


def text(lines, delimiter=",", end="\n"):
    return end.join(delimiter.join(line) for line in lines) + end


def decimal_commas(lines):
    return [[c.replace(".", ",") if i > 6 else c for c in line] for i, line in enumerate(lines)]


# name -> (text or bytes, units=)
READ = {
    "motive 1.0.csv": (text(motive("1.0", words=False)), None),
    "motive 1.21.csv": (text(motive("1.21", rigid=False)), None),
    "motive 1.22.csv": (text(motive("1.22", order="ZYX")), None),
    "motive 1.23.csv": (text(motive("1.23")), None),
    "motive 1.23 quality.csv": (text(motive("1.23", quality=True), end="\r\n"), None),
    "motive 1.24 timecode.csv": (text(motive("1.24", timecode=True)), None),
    "motive 1.25 parent.csv": (text(motive("1.25", parent=True)), None),
    "motive semicolons.csv": (text(decimal_commas(motive("1.25", parent=True)), ";"), None),
    "motive utf-16.csv": (text(motive("1.23")).encode("utf-16"), None),
    "motive no unit.csv": (text(motive("1.2", unit="")), "mm"),
    "qtm.tsv": (text(qualisys(), "\t"), None),
    "qtm no titles.tsv": (text(qualisys(titles=False), "\t"), None),
    "qtm bare.tsv": (text(qualisys(lead=False, titles=False), "\t"), None),
    "qtm bare tabs.tsv": (text(qualisys(lead=False, titles=False, tab=True), "\t", "\r\n"), None),
    "qtm tabs.tsv": (text(qualisys(titles=False, tab=True), "\t"), None),
    "qtm zeros.tsv": (text(qualisys(gap="0.000"), "\t"), None),
    "qtm null.tsv": (text(qualisys(gap="NULL", titles=False), "\t"), None),
    "qtm comma.tsv": (text(qualisys(comma=True), "\t"), None),
    "qtm 2.0.tsv": (text([["FILE_VERSION", "2.0.0"], *qualisys(more=[["EVENT", "grip", "2", "0.01"]])], "\t"), None),
    "qtm external.tsv": (text(qualisys(frequency="EXT"), "\t"), None),
    "nexus.csv": (text(vicon()), None),
    "nexus 2.16.csv": (text([[""], [""], *vicon()]), None),
    "nexus velocities.csv": (text(vicon(velocities=True)), None),
    "nexus devices.csv": (text([["Devices"], ["1000"], ["", "", "Plate"], ["Frame", "Sub Frame", "Fx"], ["", "", "N"],
                                ["0", "0", "1.5"], [""], *vicon(), [""], ["Joints"], ["100"], ["9", "9"]]), None),
    "nexus tab.txt": (text(vicon(), "\t"), None),
    "nexus zyx.csv": (text(vicon(order="ZYX")), None),
    "nexus latin.csv": (text(vicon(owners=("Prüfling",) * 4)).encode("latin-1"), None),
    "opensim.trc": (text(trc(gap="nan"), "\t"), None),
    "cortex.trc": (text(trc(), "\t", "\r\n"), None),
    "pose2sim.trc": (text(trc(blank=False, tab=False), "\t"), None),
    "motive.trc": (text(trc(gap="0.000000"), "\t"), None),
    "zyx.trc": (text(trc(order="ZYX"), "\t"), None),
    "anipose.csv": (text(table("{}_{}", ("fnum",), gap="nan", extra=("error", "ncams", "score"))), "mm"),
    "dltdv.csv": (text(table("{}_{}", (), gap="NaN", axes="XYZ")), "mm"),
    "deeplabcut.csv": (text(deeplabcut()), "mm"),
    "deeplabcut individuals.csv": (text(deeplabcut(individuals=True)), "mm"),
    "optotrak.csv": (text([["Number of frames:", "6"], ["Frequency:", "100"], [""], *table("{} {}", ("Frame",))]), "mm"),
    "plain.csv": (text(table()), None),
    "plain zyx.csv": (text(table(axes="zyx")), None),
    "brackets.csv": (text(table("{} {} [mm]", ("Time (s)",), axes="XYZ")), None),
    "camel.csv": (text(table("{}{}(mm)", ("t",), axes="XYZ")), None),
    "excel.csv": (b"\xef\xbb\xbf" + text(table(comma=True), ";", "\r\n").encode(), None),
    "no clock.csv": (text(table("{}.{} [mm]", ())), None),
    "before.csv": (text(table("{1}_{0}", ())), "mm"),
}  # fmt: skip


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", READ)
def test_marker_files_are_read_to_the_last_digit(tmp_path, name):
    content, units = READ[name]
    found = read_markers(written(tmp_path, name, content), units)
    assert [label.rpartition(":")[2] for label in found.names] == list(MARKERS)
    np.testing.assert_array_equal(found.positions, TAKE.positions())
    steps = np.diff(found.times)
    assert steps == pytest.approx(0.01 if steps[0] < 0.5 else 1.0)  # frame numbers where the file states no time


@pytest.mark.parametrize(("unit", "count"), [("mm", 4), ("m", 4), ("mm", 300)])
def test_c3d_files_are_read_to_the_last_digit(tmp_path, unit, count):
    """Gaps are negative residuals; beyond 255 labels stand in LABELS2."""
    pytest.importorskip("ezc3d")
    names = [f"m{i}" for i in range(count)] if count > 4 else list(MARKERS)
    expected = c3d(tmp_path / "a.c3d", unit, names, count=count)
    found = read_markers(tmp_path / "a.c3d")
    assert list(found.names) == names
    np.testing.assert_allclose(found.positions, expected, rtol=1e-15)
    assert found.times == pytest.approx(np.arange(6) / 100)


def test_c3d_files_with_a_label_twice_or_another_unit_are_refused(tmp_path):
    pytest.importorskip("ezc3d")
    c3d(tmp_path / "a.c3d", "mm", ("a", "b", "a", "c"))
    with pytest.raises(InputError, match="markers 1 and 3 are both named 'a'"):
        read_markers(tmp_path / "a.c3d")
    with pytest.raises(InputError, match="says 'mm', units='m'"):
        read_markers(tmp_path / "a.c3d", "m")


def swapped(lines, line, cells):
    return [cells if i == line else row for i, row in enumerate(lines)]


def cell(lines, line, column, value):
    return [[value if (i, j) == (line, column) else c for j, c in enumerate(row)] for i, row in enumerate(lines)]


REFUSED = {
    "6d.tsv": (text(qualisys(more=[["DATA_INCLUDED", "6D"]]), "\t"), "line 10, column 2: holds 6D data, no markers"),
    "ragged.tsv": (
        text(swapped(qualisys(titles=False), 12, ["2", "0.01", "1"]), "\t"),
        "line 13: 3 cells, other lines have 14",
    ),
    "count.tsv": (text(cell(qualisys(), 2, 1, "5"), "\t"), "line 3: NO_OF_MARKERS is 5, the file holds 4"),
    "torn.tsv": (text(qualisys()[:-1], "\t"), "line 1: NO_OF_FRAMES is 6, the file holds 5"),
    "letters.tsv": (text(cell(qualisys(), 13, 4, "1.2.3"), "\t"), r"line 14, column 5: '1.2.3' is not a number"),
    "bodies.csv": (text([row[:13] for row in motive()]), "no columns of the type Marker"),
    "short type.csv": (text(swapped(motive(), 2, motive()[2][:14])), "line 3, column 15: a position has no Type"),
    "short name.csv": (text(swapped(motive(), 3, motive()[3][:14])), "line 4, column 15: a position has no Name"),
    "no axes.csv": (text(motive()[:6]), "no line of X, Y, Z below the header"),
    "two xs.csv": (text(cell(motive(), 6, 14, "X")), "line 7, column 15: a second X of one marker"),
    "half.csv": (text(cell(motive(), 8, 14, "")), "line 9, column 15: the marker 'Finger:base1' has no y here"),
    "ends.csv": (text(vicon()[:4]), "line 1: the section ends within its header"),
    "two takes.csv": (text([*vicon(), [""], *vicon()]), "a second section Trajectories"),
    "no unit.csv": (text(cell(vicon(), 4, 3, "")), "line 5, column 4: a coordinate without a name or a unit"),
    "twice.trc": (text(trc(names=("a", "b", "c", "a")), "\t"), "line 4, column 12: the marker 'a' is also in column 3"),
    "three lines.trc": (text(trc()[:3], "\t"), "line 4: names no Frame# and Time"),
    "takes.trc": (text([*trc(), *trc()], "\t"), "NumFrames is 6, the file holds"),
    "cut.trc": (text(trc(tab=False), "\t")[:-14], "line 12: .* cells, the header names 14"),
    "no header.csv": (text(table()[1:]), "no header names markers and axes"),
    "twice.csv": (
        text(swapped(table(), 0, [*table()[0][:5], "base1_x_mm", *table()[0][6:]])),
        "line 1, column 6: 'base1_x_mm'",
    ),
    "no z.csv": (text([row[:-1] for row in table()]), "the marker 'tip' has x, y and no Z"),
    "takes.csv": (text([*table(), *table()[1:]]), "line 8, column 2: goes back in time; a second take"),
    "infinite.csv": (text(cell(table(), 2, 4, "inf")), "line 3, column 5: 'inf' is not a finite number"),
    "extra.csv": (text(swapped(table(), 3, [*table()[3], "7"])), "line 4, column 15: '7' is beyond the 14 columns"),
    "signs.csv": (
        text(cell(table(comma=True), 3, 5, "1.5"), ";"),
        "'1.5' has a decimal point, other cells a decimal comma",
    ),
    "field.csv": (text(cell(table(), 2, 4, "1" * 140_000)), "line 3: cannot be parted into cells"),
    "quote.csv": (text(cell(table(), 2, 4, '"1.0')), "line 3: "),
    "unit.csv": (text(table("{}_{} [um]")), "the unit 'um' is unknown"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_contradict_themselves_are_refused(tmp_path, name):
    content, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        read_markers(written(tmp_path, name, content))


def test_every_coordinate_has_its_own_unit(tmp_path):
    path = written(tmp_path, "a.csv", "a_x_mm,a_y_mm,a_z_mm,b_x_m,b_y_m,b_z_m\n1,2,3,4,5,6\n")
    np.testing.assert_allclose(read_markers(path).positions, [[[1e-3, 2e-3, 3e-3], [4, 5, 6]]])
    with pytest.raises(InputError, match="says 'm', units='mm': leave units out"):
        read_markers(path, "mm")


def test_markers_of_two_subjects_keep_their_subject(tmp_path):
    path = written(tmp_path, "a.csv", text(vicon(owners=("A", "A", "B", "B"))))
    assert read_markers(path).names == ("A:base1", "A:base2", "B:base3", "B:tip")


def test_unlabeled_markers_of_one_name_are_told_apart_by_their_ids(tmp_path):
    path = written(tmp_path, "a.csv", text(motive(names=["tip", "Unlabeled", "Unlabeled", "b"])))
    assert read_markers(path).names == ("tip", "Unlabeled (12)", "Unlabeled (13)", "b")


def test_the_axis_that_points_up_becomes_z(tmp_path):
    """A rotation: distances stay, and the height of the file is z."""
    path = written(tmp_path, "a.csv", text(motive()))
    as_is, raised = read_markers(path), read_markers(path, up="y")
    np.testing.assert_array_equal(raised.positions[..., 2], as_is.positions[..., 1])
    gaps = [np.linalg.norm(m.positions[:, 1] - m.positions[:, 2], axis=1) for m in (as_is, raised)]
    np.testing.assert_allclose(*gaps)
    for up, turn in (("y", [[1, 0, 0], [0, 0, -1], [0, 1, 0]]), ("x", [[0, 1, 0], [0, 0, 1], [1, 0, 0]])):
        assert np.linalg.det(turn) == pytest.approx(1.0)
        np.testing.assert_array_equal(read_markers(path, up=up).positions, as_is.positions @ np.array(turn).T)
    assert any("Y up" in note for note in as_is.notes)


def test_a_row_of_gaps_keeps_its_place(tmp_path):
    path = written(tmp_path, "a.csv", "a_x_m,a_y_m,a_z_m\n1,2,3\n,,\n4,5,6\n\n")
    assert len(read_markers(path).positions) == 3
    assert np.isnan(read_markers(path).positions[1]).all()


def test_zeros_of_a_plain_table_are_positions(tmp_path):
    path = written(tmp_path, "a.csv", "name,x_mm,y_mm,z_mm\norigin,0,0,0\ntip,1,2,3\n")
    assert np.isfinite(read_markers(path).positions).all()
    assert "1 positions are exactly 0, 0, 0 and were kept" in read_markers(path).notes[1]


def test_markers_refuse_a_name_twice_and_infinite_positions():
    with pytest.raises(InputError, match="markers 1 and 2 are both named 'a'"):
        Markers(np.ones((2, 3)), ("a", "a"))
    with pytest.raises(InputError, match="marker 2 is infinitely far away in frame 0"):
        Markers([[1, 2, 3], [1, 2, np.inf]])


PLY = "ply\nformat ascii 1.0\nelement vertex 40\nproperty float x\nproperty float y\nproperty float z\nend_header"
SCANS = {
    "cloudcompare.asc": (cloud("{0:.3f} {1:.3f} {2:.3f} 90 80 70", ["//X Y Z R G B"]), "mm"),
    "cloudcompare count.txt": (cloud("{0:.3f} {1:.3f} {2:.3f}", ["//X Y Z", "40"]), "mm"),
    "leica.pts": (cloud("{0:.3f} {1:.3f} {2:.3f} -811 90 80 70", ["40"]), "mm"),
    "leica intensity.pts": (cloud("{0:.3f} {1:.3f} {2:.3f} -811", ["40"]), "mm"),
    "plain.xyz": (cloud(), "mm"),
    "tabs.xyz": (cloud("{0:.3f}\t{1:.3f}\t{2:.3f}"), "mm"),
    "normals.xyz": (cloud("{0:.3f} {1:.3f} {2:.3f} 0 0 1"), "mm"),
    "ids.csv": (cloud("{3},{0:.3f},{1:.3f},{2:.3f}", ["id,x,y,z"]), "mm"),
    "zyx.csv": (cloud("{2:.3f},{1:.3f},{0:.3f}", ["z,y,x"]), "mm"),
    "unit.csv": (cloud("{0:.3f},{1:.3f},{2:.3f}", ["x_mm,y_mm,z_mm"]), None),
    "brackets.csv": (cloud("{0:.3f};{1:.3f};{2:.3f}", ["X [mm];Y [mm];Z [mm]"]), None),
    "comma blanks.txt": ([line.replace(".", ",") for line in cloud()], "mm"),
    "comma semicolons.csv": ([line.replace(".", ",") for line in cloud("{0:.3f};{1:.3f};{2:.3f}")], "mm"),
    "commas and blanks.csv": (cloud("{0:.3f}, {1:.3f}, {2:.3f}"), "mm"),
    "comment.txt": (cloud("{0:.3f} {1:.3f} {2:.3f}", ["# scanned on Monday"]), "mm"),
    "cloud.ply": ([*PLY.split("\n"), *cloud()], "mm"),
    "cloud.obj": (cloud("v {0:.3f} {1:.3f} {2:.3f}"), "mm"),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_are_read_to_the_last_digit(tmp_path, name):
    lines, units = SCANS[name]
    points = read_scan(written(tmp_path, name, "\n".join(lines) + "\n"), units)
    np.testing.assert_allclose(
        points, CLOUD * 1e-3, rtol=1e-15 if name[-3:] in ("xyz", "csv", "txt", "asc", "pts") else 1e-6
    )


def test_points_without_a_return_are_left_out(tmp_path):
    path = written(tmp_path, "a.xyz", "\n".join([*cloud(), "nan nan nan"]))
    assert len(read_scan(path, "mm")) == len(CLOUD)


SCANS_REFUSED = {
    "m.csv": (cloud("{0:.3f},{1:.3f},{2:.3f}", ["x_m,y_m,z_m"]), "line 1: the file says 'm', units='mm'"),
    "inf.xyz": ([*cloud(), "1 2 inf"], "line 41, column 3: 'inf' is not a finite number"),
    "torn.pts": (cloud("{0:.3f} {1:.3f} {2:.3f} -811", ["41"]), "states 41 points, the file holds 40"),
    "counted.xyz": (cloud("{3} {0:.3f} {1:.3f} {2:.3f}"), "line 1, column 1: the first column counts the rows"),
    "four.csv": (cloud("{0:.3f},{1:.3f},{2:.3f},7"), "4 columns without a header"),
    "six.csv": (["1,5,2,5,3,5"] * 40, "six whole numbers, or three with decimal commas"),
    "both.csv": (["1,5, 2,5, 3,5"] * 40, "commas part the cells and are decimal signs"),
    "mixed.txt": (["1,5 2,5 3,5", "1.5 2.5 3.5"] * 20, "has a decimal point, other cells a decimal comma"),
    "names.csv": (cloud("{0:.3f},{1:.3f},{2:.3f}", ["a,b,c"]), "line 1: a header that names no x, y and z"),
    "half.xyz": ([*cloud(), "1 nan 3"], "line 41: a point of which a coordinate is missing"),
    "short.xyz": ([*cloud(), "1 2"], "line 41: 2 cells, the header names 3"),
}


@pytest.mark.parametrize("name", SCANS_REFUSED)
def test_scans_that_are_not_known_are_refused(tmp_path, name):
    lines, message = SCANS_REFUSED[name]
    with pytest.raises(InputError, match=message):
        read_scan(written(tmp_path, name, "\n".join(lines) + "\n"), "mm")


def test_damaged_marker_files_end_in_one_line(tmp_path):
    """Lines and cells taken out, doubled, emptied or cut: what is read is right where it is given, else one line says why."""
    rng = np.random.default_rng(3)
    for name, lines, delimiter in (
        ("a.csv", motive(), ","),
        ("b.tsv", qualisys(), "\t"),
        ("c.csv", vicon(), ","),
        ("d.trc", trc(), "\t"),
        ("e.csv", table(), ","),
    ):
        content = text(lines, delimiter)
        for _ in range(60):
            hurt = bytearray(content.encode())
            kind, at = rng.integers(4), int(rng.integers(len(hurt)))
            if kind == 0:
                hurt = hurt[:at]
            elif kind == 1:
                hurt[at : at + int(rng.integers(1, 60))] = b""
            elif kind == 2:
                rows = content.split("\n")
                del rows[int(rng.integers(len(rows)))]
                hurt = bytearray("\n".join(rows).encode())
            else:
                hurt[at:at] = b"\n"
            path = written(tmp_path, name, bytes(hurt))
            said = ""
            try:
                found = read_markers(path, None)
            except InputError as error:
                said = str(error)
            assert name in said if said else np.isfinite(found.times).all()
            assert "\n" not in said


def test_takes_of_many_markers_keep_their_order(tmp_path):
    names = [f"m{i}" for i in range(40)]
    take = Take(tuple(names))
    head = [[*(f"{name}_{axis}_mm" for name in names for axis in "xyz")]]
    found = read_markers(written(tmp_path, "a.csv", text([*head, *take.rows()])))
    assert list(found.names) == names
    np.testing.assert_array_equal(found.positions, take.positions())


ZEROS = ((0.0, 0.0, 0.0), (1.0, 2.0, 3.0))


@pytest.mark.parametrize("gap", [None, "", "0.000"])
@pytest.mark.parametrize("kind", ["qtm", "trc"])
def test_zeros_are_positions_where_the_file_marks_its_gaps_otherwise(tmp_path, kind, gap):
    """An exporter that leaves cells empty writes 0, 0, 0 for a marker at the origin only."""
    rows = [["0.000"] * 3 + ["1", "2", "3"], ["4", "5", "6"] + ([gap] * 3 if gap is not None else ["7", "8", "9"])]
    if kind == "qtm":
        head = ["NO_OF_FRAMES\t2", "NO_OF_MARKERS\t2", "FREQUENCY\t100", "MARKER_NAMES\ta\tb"]
        lines = head + ["\t".join(row) for row in rows]
    else:
        head = ["PathFileType\t4\t(X/Y/Z)\ta.trc"]
        head += ["DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits", "100\t100\t2\t2\tmm"]
        head += ["Frame#\tTime\ta\t\t\tb\t\t", "\t\tX1\tY1\tZ1\tX2\tY2\tZ2", ""]
        lines = head + ["\t".join([str(k + 1), f"{k / 100:g}", *row]) for k, row in enumerate(rows)]
    found = read_markers(written(tmp_path, f"a.{'tsv' if kind == 'qtm' else 'trc'}", "\n".join(lines) + "\n"))
    kept = gap == ""
    assert np.isfinite(found.positions[0, 0]).all() == kept
    assert np.isnan(found.positions[1, 1]).all() == (gap is not None)
    assert ("were kept" if kept else "taken as gaps, because the file marks none") in found.notes[1]


@pytest.mark.parametrize(("residuals", "kept"), [((0, 0), False), ((0, -1), True), ((2, 3), True), ((-1, 0), False)])
def test_zeros_of_c3d_files_are_gaps_only_where_residuals_say_so_or_say_nothing(tmp_path, residuals, kept):
    ezc3d = pytest.importorskip("ezc3d")
    file = ezc3d.c3d()
    file["parameters"]["POINT"]["RATE"]["value"] = [100]
    file["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
    file["parameters"]["POINT"]["LABELS"]["value"] = ["a", "b"]
    points = np.ones((4, 2, 2))
    points[:3] = np.array([ZEROS, ZEROS]).transpose(2, 1, 0)
    file["data"]["points"] = points
    written_residuals = np.tile(np.array(residuals, dtype=float)[None, :, None], (1, 1, 2))
    file["data"]["meta_points"] = {"residuals": written_residuals, "camera_masks": np.zeros((7, 2, 2), dtype=bool)}
    file.write(str(tmp_path / "a.c3d"))
    assert np.isfinite(read_markers(tmp_path / "a.c3d").positions[:, 0]).all() == kept


@pytest.mark.parametrize("lines", [deeplabcut(), motive(), qualisys(), vicon(), trc(), table()])
def test_a_file_that_ends_in_its_head_is_refused(tmp_path, lines):
    """Cut behind each of its first lines: one line says so, or what is missing."""
    delimiter = "\t" if lines[0][0] in ("PathFileType", "NO_OF_FRAMES") else ","
    for count in range(1, 6):
        path = written(
            tmp_path, "a.trc" if lines[0][0] == "PathFileType" else "a.csv", text(lines[:count], delimiter).strip("\n")
        )
        with contextlib.suppress(InputError):
            read_markers(path, "mm")
