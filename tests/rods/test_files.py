"""Geometry and actuation files of rods, and natural curvatures recovered from measured shapes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from geosim import Environment, InputError, LinearElastic, NaturalShape, Passive, solve
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.rods.files import read_geometry, read_natural_shape, read_table, read_tags
from geosim.rods.real2sim import equilibrium, pixels_to_metres, recover_curvatures, sensitivity
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.section import Section
from geosim.rods.stepper import RodShellStepper

SILICONE = LinearElastic(1.8e6, 0.5, 1240.0)


def write_geometry(path, vertices, edges, triangles=()):
    """Write a `*Nodes/*Edges/*Triangles` file (ids from 1)."""
    lines = ["*Nodes", *(",".join(f"{v:.17g}" for v in row) for row in vertices)]
    for name, given in (("*Edges", edges), ("*Triangles", triangles)):
        if len(given):
            lines += [name, *(",".join(str(int(v) + 1) for v in row) for row in given)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_geometry_is_read_to_the_last_digit(tmp_path):
    vertices = np.random.default_rng(0).normal(size=(5, 3))
    edges, triangles = [[0, 1], [1, 2]], [[2, 3, 4]]
    path = write_geometry(tmp_path / "robot.txt", vertices, edges, triangles)
    v, e, t = read_geometry(path)
    assert np.array_equal(v, vertices)
    assert e.tolist() == edges
    assert t.tolist() == triangles
    assert path.read_text(encoding="utf-8").splitlines()[-3].split(",") == ["2", "3"]  # ids count from 1 in the file


def test_geometry_files_of_the_matlab_tool_are_read(reference_data):
    v, e, t = read_geometry(reference_data / "rods/matlab/rod_cantilever/horizontal_rod_n51.txt")
    assert v.shape == (51, 3)
    assert e.tolist() == [[i, i + 1] for i in range(50)]
    assert t.shape == (0, 3)
    v, e, t = read_geometry(reference_data / "rods/matlab/shell_cantilever/equilateral_mesh_40.txt")
    assert v.shape == (451, 3)
    assert len(e) == 0
    assert len({tuple(sorted(p)) for f in t for p in ((f[0], f[1]), (f[1], f[2]), (f[2], f[0]))}) == 1259


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("*Nodes\n0,0,0\n1,0\n", "line 3: 2 numbers"),
        ("0,0,0\n", "stands before"),
        ("*Nodes\n0,0,0\n*Edges\n1,2\n", "outside 1 .. 1"),
        ("*Nods\n", "unknown"),
        ("*Nodes\na,b,c\n", "not a row of numbers"),
        ("", "the file is empty"),
        ("# nothing\n", "no \\*Nodes"),
        ("*Nodes\n0,0,0\n1,0,0\n*Edges\n0,1\n", "ids count from 1"),
    ],
)
def test_bad_geometry_is_refused_with_file_and_line(tmp_path, text, match):
    path = tmp_path / "robot.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=match) as caught:
        read_geometry(path)
    assert "robot.txt" in str(caught.value)


def table_text(suffix: str) -> str:
    comma = "," if suffix == ".csv" else " "
    return "\n".join(comma.join(map(str, row)) for row in [(0.0, 1.0, 2.0), (0.5, 3.0, 4.0), (1.0, 5.0, 6.0)])


def test_rods_and_shells_in_sections_of_their_own(tmp_path):
    """Ids count through rods, then shells; joints are edges; the robot is that of one list of nodes."""
    (tmp_path / "both.txt").write_text(
        "*rodNodes\n0,0,0\n1,0,0\n*shellNodes\n2,0,0\n3,0,0\n2,1,0\n*FaceNodes\n3,4,5\n*rodEdges\n1,2\n"
        "*rodshellJointEdges\n2,3\n"
    )
    (tmp_path / "one.txt").write_text(
        "*Nodes\n0,0,0\n1,0,0\n2,0,0\n3,0,0\n2,1,0\n*Edges\n1,2\n2,3\n*Triangles\n3,4,5\n"
    )
    for ours, theirs in zip(read_geometry(tmp_path / "both.txt"), read_geometry(tmp_path / "one.txt")):
        np.testing.assert_array_equal(ours, theirs)
    (tmp_path / "bad.txt").write_text("*rodNodes\n0,0,0\n1,0,0\n*rodEdges\n1,3\n")
    with pytest.raises(InputError, match=r"\*rodedges: id 3 is outside 1 .. 2"):
        read_geometry(tmp_path / "bad.txt")


@pytest.mark.parametrize("suffix", [".csv", ".txt", ".xlsx", ".xls"])
def test_the_same_actuation_comes_from_text_and_workbooks(tmp_path, suffix):
    path = tmp_path / f"curvature{suffix}"
    if suffix == ".xls":
        pytest.importorskip("xlrd")
        path = Path(__file__).with_name("curvature.xls")  # of Excel 97, with an empty row
    elif suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.active.append(["time", "curvature", "curvature"])
        for row in ((0.0, 1.0, 2.0), (0.5, 3.0, 4.0), (1.0, 5.0, 6.0)):
            book.active.append(row)
        book.save(path)
    else:
        path.write_text(table_text(suffix))
    shape = read_natural_shape(path)
    assert shape.times.tolist() == [0.0, 0.5, 1.0]
    assert shape.at("curvature", 0.75) == pytest.approx([4.0, 5.0])
    assert shape.twist is None


def test_header_names_choose_what_is_driven(tmp_path):
    path = tmp_path / "act.csv"
    path.write_text("time [s],curvature_1,curvature_2,twist\n0,1,2,3\n1,1,2,3\n")
    shape = read_natural_shape(path)
    assert shape.curvature.shape == (2, 1, 2)
    assert shape.twist.tolist() == [3, 3]
    path.write_text("time,stretch\n0,1\n1,1.2\n")
    assert read_natural_shape(path).stretch.tolist() == [1, 1.2]
    path.write_text("time,stretch\n0,1\n1,0\n")
    with pytest.raises(InputError, match="stretch = 0 must be above 0"):
        read_natural_shape(path)
    path.write_text("time,a\n0,1\n1,2\n")
    assert read_natural_shape(path, "twist").twist.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("0,1\n1,x\n", "row 2, column 2"),
        ("0,1\n1,\n", "row 2, column 2 is empty"),
        ("0\n1\n", "at least one column"),
        ("time,curvature,curl\n0,1,1\n", "'curl' is unknown"),
        ("1,1\n0,2\n", "increasing"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, match):
    path = tmp_path / "act.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        read_natural_shape(path)
    with pytest.raises(InputError, match=r"\.csv, \.txt, \.xlsx or \.xls"):
        read_table(tmp_path / "act.ods")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "missing.csv")


@pytest.mark.parametrize(("suffix", "library"), [(".xls", "xlrd"), (".xlsx", "openpyxl")])
def test_workbooks_without_their_library_and_broken_ones_are_refused(tmp_path, monkeypatch, suffix, library):
    pytest.importorskip(library)
    path = tmp_path / f"act{suffix}"
    path.write_text("0,1")
    with pytest.raises(InputError, match=f"not a readable {suffix[1:].upper()} workbook"):
        read_table(path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"need {library} \(pip install 'geosim\[tables\]'\), or save it as \.csv"):
        read_table(path)


# -- real2sim ----------------------------------------------------------------------------------------------------------


def arm(nodes: int = 15) -> RodShellRobot:
    limbs = [
        Limb((0, 0, 0), (0.08, 0, 0), nodes, 6e-3, SILICONE),
        Limb((0.08, 0, 0), (0.16, 0, 0), nodes, 6e-3, SILICONE),
    ]
    return RodShellRobot.from_limbs(limbs, fixed_vertices=[0, 1], fixed_edges=[0], planar="xz")


def synthetic(truth: np.ndarray, at: np.ndarray):
    """Return robot, groups, environment and the tags of given natural curvatures (k, 2)."""
    robot = arm()
    groups = [robot.limb_bends(0), robot.limb_bends(1)]
    environment = Environment(gravity=(0, 0, -9.8))
    s = np.concatenate([[0], np.cumsum(robot.rest_lengths)])
    tags = []
    for row in truth:
        curvature = np.zeros(len(robot.bends))
        for group, c in zip(groups, row):
            curvature[group] = c
        x = solve(
            robot,
            NaturalShape([1.0], curvature=curvature[None]),
            environment,
            solver=RodShellStepper(static=True, tolerance=1e-10),
        ).frames[-1]
        tags.append(np.stack([np.interp(at, s, x[:, j]) for j in range(3)], axis=1))
    return robot, groups, environment, np.array(tags)


def test_recovery_finds_the_true_curvatures_with_tags_missing_in_few_solves():
    truth = np.array([[2.0, -3.0], [4.0, -1.0], [9.0, 12.0], [-6.0, 15.0]])
    at = np.linspace(0, 0.16, 9)
    robot, groups, environment, tags = synthetic(truth, at)
    tags[1, [3, 8]] = np.nan
    tags = np.insert(tags, 2, np.nan, axis=0)  # a frame without any tag
    found = recover_curvatures(robot, tags, groups, at=at, environment=environment, tolerance=1e-6)
    assert np.isnan(found.curvature[2]).all()
    assert np.abs(np.delete(found.curvature, 2, axis=0) - truth).max() < 1e-4
    assert np.nanmax(found.rms_error) < 1e-6
    assert found.solves.max() <= 10
    replay = found.actuation(np.arange(5.0), robot, groups)
    assert replay.times.tolist() == [0, 1, 3, 4]


def test_sensitivity_of_an_equilibrium_is_its_derivative():
    robot = arm()
    groups = [robot.limb_bends(0), robot.limb_bends(1)]
    solver = RodShellStepper(static=True, tolerance=1e-12)
    state = solver.start(robot, Environment(gravity=(0, 0, -9.8)))
    value = np.array([5.0, -8.0])
    here = equilibrium(solver, state, value, groups)
    exact = sensitivity(here, groups)
    for j in range(2):
        step = 1e-3 * np.eye(2)[j]
        high, low = (equilibrium(solver, here.state, value + s, groups).state.positions for s in (step, -step))
        numeric = (high - low) / 2e-3
        assert np.abs(exact[j] - numeric).max() < 1e-6 * np.abs(exact[j]).max()


def test_pixels_become_metres_with_y_up_and_the_first_tag_at_the_origin():
    pixels = np.array([[[10.0, 20.0], [110.0, 20.0], [110.0, 120.0]], [[10, 20], [np.nan, np.nan], [0, 0]]])
    metres = pixels_to_metres(pixels, 0.4)
    assert metres[0] == pytest.approx(np.array([[0, 0, 0], [0.2, 0, 0], [0.2, 0, -0.2]]))
    assert np.isnan(metres[1, 1]).all()
    with pytest.raises(InputError, match="scale"):
        pixels_to_metres(np.full((1, 3, 2), np.nan), 0.4)


def test_measured_manipulator_is_reproduced_better_than_published(reference_data):
    """Mean tip error of the two-limb manipulator below the published 1.5 % of its length."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        import rods_real2sim as study
    finally:
        sys.path.pop(0)
    _, pixels = read_tags(reference_data / "rods/soft_limb_data.csv")
    assert pixels.shape == (178, 9, 2)
    tags = pixels_to_metres(pixels, study.LENGTH)
    at = study.places(tags)
    robot = study.manipulator(study.base_angle(tags, at), at[4])
    found = recover_curvatures(robot, tags, study.groups_of(robot), at=at, environment=study.ENVIRONMENT)
    seen = np.isfinite(found.tip_error)
    assert seen.sum() >= 170
    assert found.tip_error[seen].mean() < 0.005 * study.LENGTH
    assert found.solves[seen].mean() < 6


# -- robot.toml --------------------------------------------------------------------------------------------------------

ROD_FILE = """
kind = "rod-shell"
units = "mm"
geometry = "robot.txt"
planar = "xz"
[rod]
radius = 2.0
material = { model = "linear-elastic", youngs_modulus = 1e6, poisson_ratio = 0.5, density = 1000.0 }
section = { width = 4.0, height = 2.0 }
[fixed]
ids = [0, 1]
edges = [0]
[environment]
gravity = [0, 0, -9.81]
[solver]
static = true
"""


def test_a_robot_file_solves_like_the_robot_in_code(tmp_path):
    x = np.stack([np.linspace(0, 0.1, 11), np.zeros(11), np.zeros(11)], axis=1)
    write_geometry(tmp_path / "robot.txt", 1e3 * x, np.stack([np.arange(10), np.arange(1, 11)], axis=1))
    (tmp_path / "robot.toml").write_text(ROD_FILE)
    robot, environment, solver = load_problem(tmp_path / "robot.toml")
    assert solver.static
    same = RodShellRobot(
        x,
        radius=2e-3,
        section=Section.rectangle(4e-3, 2e-3),
        fixed_vertices=[0, 1],
        fixed_edges=[0],
        rod_material=LinearElastic(1e6, 0.5, 1000.0),
        planar="xz",
    )
    one = solve(robot, Passive(), environment, solver=solver)
    two = solve(same, Passive(), Environment(gravity=(0, 0, -9.81)), solver=RodShellStepper(static=True))
    assert np.abs(one.frames[-1] - two.frames[-1]).max() < 1e-9


def test_a_torque_stands_in_a_robot_file(tmp_path):
    write_geometry(tmp_path / "robot.txt", np.outer(np.arange(5), [1.0, 0, 0]), [[i, i + 1] for i in range(4)])
    load = '[[environment.loads]]\nkind = "torque"\nedges = [3]\ntorque = [1e-4, 2e-4]\n'
    (tmp_path / "robot.toml").write_text(f"{ROD_FILE}\n{load}")
    (loaded,) = load_problem(tmp_path / "robot.toml")[1].loads
    assert (loaded.kind, loaded.where.tolist(), loaded.at(1)) == ("torque", [3], 2e-4)
    (tmp_path / "robot.toml").write_text(f"{ROD_FILE}\n{load}vertices = [1]\n")
    with pytest.raises(InputError, match=r"vertices does not belong here; kind = \"torque\" needs edges"):
        load_problem(tmp_path / "robot.toml")
    load = '[[environment.loads]]\nkind = "moment"\nedges = [3]\nmoment = [0, 0, 2e-4]\n'
    (tmp_path / "robot.toml").write_text(f"{ROD_FILE}\n{load}")
    (loaded,) = load_problem(tmp_path / "robot.toml")[1].loads
    assert (loaded.kind, loaded.at(0).tolist()) == ("moment", [0.0, 0.0, 2e-4])


def test_limbs_in_a_robot_file_are_joined(tmp_path):
    limb = "start = [{0}, 0, 0]\nend = [{1}, 0, 0]\nnodes = 6\n"
    text = (
        'kind = "rod-shell"\nunits = "cm"\nfixed = "none"\n[rod]\nradius = 0.2\n'
        'material = { model = "linear-elastic", youngs_modulus = 1e6, density = 1000.0 }\n'
        + "".join("[[limbs]]\n" + limb.format(*ends) for ends in ((0, 5), (5, 9)))
    )
    (tmp_path / "robot.toml").write_text(text)
    robot = load_problem(tmp_path / "robot.toml")[0]
    assert robot.vertices.shape == (11, 3)
    assert robot.vertices[:, 0].max() == pytest.approx(0.09)
    assert robot.radius[0] == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('planar = "xz"', 'planr = "xz"', "planr"),
        ("radius = 2.0", "radius = -2.0", "radius"),
        ('geometry = "robot.txt"', 'geometry = "../robot.txt"', "outside the folder"),
        ("[fixed]\nids = [0, 1]\nedges = [0]", "", "fixed"),
        ("width = 4.0, ", "", "width and height"),
        ('units = "mm"', "", "units"),
        ("ids = [0, 1]", "ids = [0, 99]", "99"),
    ],
)
def test_bad_robot_files_are_refused_with_the_file_and_the_key(tmp_path, old, new, match):
    write_geometry(tmp_path / "robot.txt", np.outer(np.arange(5), [1.0, 0, 0]), [[i, i + 1] for i in range(4)])
    (tmp_path / "robot.toml").write_text(ROD_FILE.replace(old, new))
    with pytest.raises(InputError, match=match) as caught:
        load_problem(tmp_path / "robot.toml")
    assert "robot.toml" in str(caught.value)


def test_rods_of_a_wrong_unit_are_refused():
    """Millimetres for metres solved without a word; so did a radius in millimetres."""
    rubber = LinearElastic(1e6, 0.5, 1000.0)
    x = np.array([[0.0, 0, 0], [100, 0, 0], [200, 0, 0]])
    with pytest.raises(InputError, match=r"suspicious size, the bounding box has a diagonal of 200 m"):
        RodShellRobot(x, radius=5.0, rod_material=rubber)
    with pytest.raises(InputError, match=r"radius: 5 m is more than the 0\.2 m that the vertices span"):
        RodShellRobot(1e-3 * x, radius=5.0, rod_material=rubber)
    with pytest.raises(InputError, match=r"diagonal of 0\.0002 m"):
        RodShellRobot(1e-6 * x, radius=5e-6, rod_material=rubber)
    assert RodShellRobot(x, radius=5.0, rod_material=rubber, allow_any_size=True).size == 200


def test_cables_and_creep_stand_in_a_robot_file(tmp_path):
    x = np.stack([np.linspace(0, 0.1, 11), np.zeros(11), np.zeros(11)], axis=1)
    write_geometry(tmp_path / "robot.txt", 1e3 * x, np.stack([np.arange(10), np.arange(1, 11)], axis=1))
    points = [[5.0, 0.0, 6.0], [50.0, 0.0, 6.0], [100.0, 0.0, 6.0]]
    text = ROD_FILE.replace("radius = 2.0", "radius = 2.0\nretardation_time = 0.05")
    text += f"[[cables]]\npoints = {points}\nfriction = 0.2\n"
    (tmp_path / "robot.toml").write_text(text)
    robot, environment, solver = load_problem(tmp_path / "robot.toml")
    assert (robot.cables[0].friction, robot.retardation_time) == (0.2, 0.05)
    assert robot.cables[0].points == pytest.approx(1e-3 * np.array(points))
    (tmp_path / "pull.toml").write_text("[cable_tensions]\ntension = [0.02]\n")
    pulled = solve(robot, load_actuation(tmp_path / "pull.toml", robot), environment, solver=solver)
    near, far = pulled.cable_end_tensions[-1, 0]
    assert near == 0.02
    assert 0 < far < near
    (tmp_path / "robot.toml").write_text(text.replace("[5.0, 0.0, 6.0]", "[5.0, 0.0, 600.0]"))
    with pytest.raises(InputError, match=r"cable 1: point 1 lies .* mm from the nearest rod"):
        load_problem(tmp_path / "robot.toml")


def test_columns_of_numbers_without_a_name_are_refused(tmp_path):
    """A row that was pasted together with the next has more cells than the header names."""
    (tmp_path / "shape.csv").write_text("time,twist\n0.0,1.0\n0.5,2.0,1.0,3.0\n")
    with pytest.raises(InputError, match=r"shape\.csv: 4 columns of numbers under 2 names"):
        read_natural_shape(tmp_path / "shape.csv")
