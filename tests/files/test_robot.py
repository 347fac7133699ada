"""robot.toml and actuation files: what they mean, and one clear line for whatever is wrong with them."""

from __future__ import annotations

import re

import meshio
import numpy as np
import pytest
import trimesh
from bending import BAR_FILE, LENGTH, WIDTH, bar_mesh, bar_robot

import geosim
from geosim import Cable, InputError
from geosim.errors import GeosimWarning
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem, load_robot

GOOD = BAR_FILE + '[tip]\nplane = "x"\nabove = 99.9\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a bar in millimetres, as VTU and MSH, and some bystanders."""
    path = tmp_path_factory.mktemp("robots") / "bar"
    path.mkdir()
    vertices, tets, regions = bar_mesh()
    mesh = meshio.Mesh(vertices * 1e3, [("tetra", tets)], cell_data={"region": [regions]})
    meshio.vtu.write(str(path / "bar.vtu"), mesh)
    tagged = meshio.Mesh(
        vertices * 1e3, [("tetra", tets)], cell_data={"gmsh:physical": [regions], "gmsh:geometrical": [regions]}
    )
    meshio.gmsh.write(str(path / "bar.msh"), tagged, "2.2", binary=False)
    meshio.vtu.write(str(path / "plain.vtu"), meshio.Mesh(vertices * 1e3, [("tetra", tets)]))
    meshio.vtu.write(str(path / "flat.vtu"), meshio.Mesh(vertices * 1e3, [("triangle", tets[:, :3])]))
    (path / "broken.vtu").write_text("<VTKFile>")
    (path / "silicone.toml").write_text('model = "neo-hookean"\nmu = 30e3\n')
    (path.parent / "outside.vtu").write_bytes((path / "bar.vtu").read_bytes())
    return path


def written(folder, text):
    path = folder / "robot.toml"
    path.write_text(text)
    return path


def test_a_good_file_is_the_robot_that_the_arrays_are(folder):
    robot, environment, solver = load_problem(written(folder, GOOD))
    twin = bar_robot()
    assert np.allclose(robot.vertices, twin.vertices, atol=1e-15)
    for name in ("tets", "regions", "fixed", "tip"):
        assert np.array_equal(getattr(robot, name), getattr(twin, name)), name
    assert (robot.name, robot.units, robot.chambers, solver) == ("bar", "mm", 1, None)
    assert robot.materials[0] == geosim.materials.get("ecoflex-00-30-fang2022")
    assert not environment.gravity.any()
    assert load_robot(folder / "robot.toml").body_volume == pytest.approx(twin.body_volume)


def test_a_case_is_all_that_a_file_says(folder):
    """Robot, actuation, environment and solver; `load_robot` warns of what it leaves out."""
    robot, actuation, environment, solver = geosim.load_case(written(folder, GOOD))
    assert (actuation, solver, robot.chambers, len(environment.loads)) == (None, None, 1, 0)
    (folder / "act.toml").write_text("[inflation]\npressure_kpa = [2, 4]\n")
    rest = '[environment]\ngravity = [0, 0, -9.81]\n[solver]\nelement = "p1"\n'
    path = written(folder, f'actuation = "act.toml"\n{GOOD}{rest}')
    robot, actuation, environment, solver = geosim.load_case(path)
    assert np.array_equal(actuation.pressure, [[2e3], [4e3]])
    assert (environment.gravity[2], solver.element) == (-9.81, "p1")
    with pytest.warns(
        GeosimWarning, match=r"leaves out \[actuation\] and \[environment\] and \[solver\]; geosim.load_case"
    ):
        load_robot(path)
    written(folder, GOOD + "[actuation.inflation]\nvolume_ratio = [1.5]\n")
    assert geosim.load_case(path)[1].volume_ratio == 1.5
    written(folder, GOOD + "[actuation.cable_lengths]\nlength = [[50.0]]\n")
    assert geosim.load_case(path)[1].length == 0.050, "in the unit of the file"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('actuation = "none.toml"\n' + GOOD, "'none.toml' does not exist"),
        ('actuation = "../act.toml"\n' + GOOD, "outside the folder"),
        ("actuation = 3\n" + GOOD, "= 3 must be the name of an actuation file, or a table like"),
        (GOOD + "[actuation.inflating]\npressure_kpa = [1]\n", "did you mean 'inflation'"),
        (GOOD + "[actuation]\npressure_kpa = [1]\n", "pressure_kpa"),
    ],
)
def test_an_impossible_actuation_of_a_file_is_refused(folder, text, words):
    with pytest.raises(InputError, match=re.escape(words)):
        geosim.load_case(written(folder, text))


def test_lengths_scale_with_the_units(folder):
    text = GOOD.replace('"mm"', '"cm"').replace("below = 0.1", "below = 0.01").replace("above = 99.9", "above = 99.9")
    robot = load_robot(written(folder, text))
    assert np.ptp(robot.vertices[:, 0]) == pytest.approx(10 * LENGTH)
    assert robot.units == "cm"


def test_meshes_by_gmsh_and_without_regions(folder):
    robot = load_robot(written(folder, GOOD.replace("bar.vtu", "bar.msh")))
    assert robot.chambers == 1
    robot = load_robot(written(folder, GOOD.replace("bar.vtu", "plain.vtu")))
    assert robot.chambers == 0
    assert any("no region" in notice for notice in robot.notices)


def test_two_bodies_of_one_mesh_and_material_files(folder):
    text = GOOD.replace(
        '[body]\nmesh = "bar.vtu"\nmaterial = "ecoflex-00-30-fang2022"',
        """
[[bodies]]
mesh = "bar.vtu"
material = "silicone.toml"
[[bodies]]
mesh = "bar.vtu"
region = 1
material = { model = "mooney-rivlin", c1 = 20e3, c2 = 5e3, bulk_modulus = inf }""",
    )
    robot = load_robot(written(folder, text))
    assert robot.chambers == 0
    assert robot.materials[0] == geosim.NeoHookean(30e3)
    assert robot.materials[1] == geosim.MooneyRivlin(20e3, 5e3)


def test_bodies_of_surfaces_side_by_side_are_one_mesh_of_their_own_materials(folder):
    """Faces of unlike size that lie on each other are bonded: every tet is its body's, and the bodies share vertices."""
    boxes = {"soft.stl": [[0, 0, 0], [20, 10, 5]], "hard.stl": [[0, 2, 5], [20, 8, 7]]}
    for name, bounds in boxes.items():
        trimesh.creation.box(bounds=bounds).export(folder / name)
    body = '[[bodies]]\nsurface = "{}"\nmaterial = {{ model = "neo-hookean", mu = {} }}\nmax_edge = 10.0\n'
    text = 'kind = "volumetric"\nunits = "mm"\n[fixed]\nplane = "x"\nbelow = 0.1\n'
    robot = load_robot(written(folder, text + body.format("soft.stl", 20e3) + body.format("hard.stl", 90e3)))
    middles = robot.vertices[robot.tets].mean(axis=1)
    of_tets = np.array([robot.materials[region].mu for region in robot.regions.tolist()])
    np.testing.assert_array_equal(of_tets, np.where(middles[:, 2] < 5e-3, 20e3, 90e3))
    assert robot.body_volume == pytest.approx(20e-3 * (10e-3 * 5e-3 + 6e-3 * 2e-3), rel=1e-9)
    assert robot.body_labels.max() == 0


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("plane = 'x'\nbelow = 0.1", 25),
        ("box = [[-1, -11, -1], [0.1, 11, 0.1]]", 5),
        ("sphere = [0, 0, 10]\nradius = 1", 1),
        ("nearest = [0, 0, 10]\ncount = 3", 3),
        ("ids = [0, 1, 2, 3]", 4),
    ],
)
def test_every_selection(folder, table, count):
    robot = load_robot(written(folder, GOOD.replace('plane = "x"\nbelow = 0.1', table)))
    assert len(robot.fixed) == count


def test_a_free_body_is_said_so(folder):
    text = 'fixed = "none"\n' + GOOD.replace('[fixed]\nplane = "x"\nbelow = 0.1\n', "")
    assert len(load_robot(written(folder, text)).fixed) == 0


def test_environment_is_in_the_units_of_the_file(folder):
    _, e, _ = load_problem(
        written(
            folder,
            GOOD
            + """
[environment]
gravity = [0, 0, -9.81]
self_friction = 0.3
[environment.fluid]
density = 1000
[[environment.obstacles]]
shape = "sphere"
center = [80, 0, -40]
radius = 15.0
friction = 0.2
motion = [[0, 0, 1], [0, 0, 2]]
[[environment.obstacles]]
shape = "plane"
point = [0, 0, -30]
normal = [0, 0, 2]
[[environment.obstacles]]
shape = "cylinder"
start = [0, 0, -30]
end = [0, 10, -30]
radius = 2
[[environment.obstacles]]
shape = "box"
lower = [0, 0, -30]
upper = [10, 10, -20]
friction = 0.4
free = true
mass = 0.05
released = 2
[[environment.loads]]
kind = "force"
vertices = { plane = "x", above = 99.9 }
total_force = [0, 0, -0.5]
[[environment.loads]]
kind = "traction"
faces = { plane = "z", above = 19.9 }
t = [0, 0, -100.0]
[[environment.prescribed]]
vertices = { ids = [7, 8] }
displacement = [nan, 0, 1.5]
""",
        )
    )
    sphere, plane, cylinder, box = e.obstacles
    assert np.allclose(sphere.parameters["center"], (0.08, 0, -0.04))
    assert sphere.parameters["radius"] == pytest.approx(0.015)
    assert np.allclose(sphere.motion, [[0, 0, 1e-3], [0, 0, 2e-3]])
    assert np.allclose(plane.parameters["normal"], (0, 0, 1))
    assert np.allclose(cylinder.parameters["end"], (0, 0.01, -0.03))
    assert np.allclose(box.parameters["upper"], (0.01, 0.01, -0.02))
    assert (box.free, box.mass, box.released, box.friction) == (True, 0.05, 2, 0.4)
    assert not sphere.free
    assert len(e.loads[0].where) == 25
    assert np.allclose(e.loads[0].value, (0, 0, -0.5))
    robot = bar_robot()
    corners = robot.vertices[e.loads[1].where]
    area = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum()
    assert area == pytest.approx(LENGTH * WIDTH)
    assert np.allclose(e.prescribed[0].displacement, [[np.nan, 0, 1.5e-3]], equal_nan=True)
    assert (e.fluid.density, e.self_friction, sphere.friction) == (1000, 0.3, 0.2)


# What is wrong with it: (old text, new text, words that the one line must hold).
BAD = [
    ('kind = "volumetric"', "", "kind is missing"),
    ('"volumetric"', '"volumetrix"', "'volumetrix' is unknown, did you mean 'volumetric'"),
    ('units = "mm"', "", "units is missing"),
    ('"mm"', '"mn"', "units = 'mn' must be 'm', 'cm', 'mm' or 'in', did you mean 'm"),
    ("[body]", "[bdy]", r"\[body\] is missing"),
    ("mesh =", "surfce =", r"\[body\] surfce is an unknown key, did you mean 'surface'"),
    ("below", "chambers = []\nbelow", r"\[fixed\] chambers is an unknown key.* before its first \[table\]"),
    ("below", "bellow", r"\[fixed\] bellow is an unknown key, did you mean 'below'"),
    ('mesh = "bar.vtu"', "mesh = 3", r"\[body\] mesh = 3 must be a string"),
    ('mesh = "bar.vtu"', "", r"\[body\] needs either surface"),
    ("bar.vtu", "gone.vtu", r"\[body\] mesh = 'gone.vtu' does not exist in /"),
    ("bar.vtu", "../outside.vtu", "outside the folder"),
    ("bar.vtu", "/etc/passwd", "outside the folder"),
    ("bar.vtu", "broken.vtu", "mesh = 'broken.vtu' cannot be read"),
    ("bar.vtu", "flat.vtu", "holds no tetrahedra"),
    ("bar.vtu", "silicone.toml", "use .vtu, .vtk, .msh or .inp"),
    ("ecoflex-00-30-fang2022", "ecoflex-00-31-fang2022", "did you mean 'ecoflex-00-30-fang2022'"),
    ('material = "ecoflex-00-30-fang2022"', "", "material is missing"),
    ('"ecoflex-00-30-fang2022"', '{ model = "neo-hookian", mu = 3e4 }', "'neo-hookian' is unknown"),
    ('"ecoflex-00-30-fang2022"', '{ kind = "neo-hookean", mu = 3e4 }', "the key is model: write model = 'neo-hookean'"),
    ('"ecoflex-00-30-fang2022"', '{ model = "neo-hookean", mu = "soft" }', "mu = 'soft' must be a number"),
    (
        '"ecoflex-00-30-fang2022"',
        '{ model = "neo-hookean", mu = -3 }',
        r"\[body\] material: NeoHookean: mu = -3 must be a positive",
    ),
    ('"ecoflex-00-30-fang2022"', '{ model = "linear-elastic", youngs_modulus = 1e5 }', "LinearElastic is for rods"),
    ('"ecoflex-00-30-fang2022"', "7", "material = 7 must be a preset"),
    ('"ecoflex-00-30-fang2022"', '"../x.toml"', "outside the folder"),
    ('[fixed]\nplane = "x"\nbelow = 0.1\n', "", r'\[fixed\] is missing.*fixed = "none" for a free body'),
    ("below = 0.1", "below = -5", r"fixed.*selects no vertex.*spans"),
    ("below = 0.1", 'below = "0.1"', r"\[fixed\] below = '0.1' must be a number"),
    ("below = 0.1", "below = 0.1\nradius = 2", "radius = 2.0 does not go with plane"),
    ("below = 0.1", "", r"\[fixed\] needs below"),
    ('plane = "x"\nbelow = 0.1', "ids = [99999]", "vertex ids: id 99999 is outside 0"),
    ('plane = "x"\nbelow = 0.1', "ids = []", "selects nothing"),
    (
        'plane = "x"\nbelow = 0.1',
        "ids = [9223372036854775808]",
        r"ids = \[..., 9223372036854775808, ...\] names no vertex",
    ),
    ('plane = "x"\nbelow = 0.1', "ids = [-1]", "names no vertex"),
    ('plane = "x"\nbelow = 0.1', "ids = [1.5]", r"\[fixed\] ids 1 = 1.5 must be a whole number"),
    ('plane = "x"\nbelow = 0.1', "sphere = [0, 0]\nradius = 1", "three finite numbers"),
    ('plane = "x"\nbelow = 0.1', "sphere = [0, 0, nan]\nradius = 1", "three finite numbers"),
    ('plane = "x"\nbelow = 0.1', 'plane = "x"\nnearest = [0, 0, 0]', "exactly one of plane.*plane and nearest given"),
    ('plane = "x"\nbelow = 0.1', 'plane = "w"\nbelow = 1', r"\[fixed\] plane = 'w' must be"),
    ("[tip]", "[[chambers]]\nsurface = 'a.stl'\n[tip]", r"\[\[chambers\]\] do not go with mesh"),
    ("[fixed]", "max_edge = 3\n[fixed]", "max_edge = 3.0 does not go with mesh"),
    ("[fixed]", "region = 9\n[fixed]", "region = 9 has no tet"),
    ("[tip]", "[environment]\ngravity = [0, 0]\n[tip]", "gravity = .* must be three"),
    ("[tip]", "[environment]\ngravity = [0, 0, -98100]\n[tip]", "times the Earth"),
    (
        "[tip]",
        "[[environment.obstacles]]\nshape = 'sphere'\ncenter = [0, 0, 0]\n[tip]",
        "obstacles 1 radius is missing",
    ),
    (
        "[tip]",
        "[[environment.obstacles]]\nshape = 'ball'\n[tip]",
        r"\[environment\] obstacles 1 shape = 'ball' must be",
    ),
    (
        "[tip]",
        "[[environment.obstacles]]\nshape = 'sphere'\ncenter = [0, 0, 0]\nradius = -1\n[tip]",
        "radius = -1.0 must be",
    ),
    ("[tip]", "[[environment.loads]]\nkind = 'force'\ntotal_force = [0, 0, 1]\n[tip]", "vertices is missing"),
    (
        "[tip]",
        "[[environment.prescribed]]\nvertices = [1]\ndisplacement = [1, 2]\n[tip]",
        r"displacement = \[1, 2\] mm has shape \(2,\)",
    ),
    (
        "[tip]",
        "[[environment.prescribed]]\nvertices = [1]\ndisplacement = [nan, 2]\n[tip]",
        r"displacement = \[nan, 2\] mm has shape",
    ),
    ("[tip]", "[[environment.loads]]\ntotal_force = [0, 0, 1]\n[tip]", "kind is missing; use one of force, traction"),
    (
        "[tip]",
        "[[environment.prescribed]]\ndisplacement = [0, 0, 1]\n[tip]",
        "vertices is missing, for example vertices =",
    ),
    (
        'plane = "x"\nbelow = 0.1',
        "box = [[0, 0, 0], [1, -2, 3]]",
        r"lower \[0, 0, 0\] mm exceeds upper \[1, -2, 3\] mm",
    ),
    ("[tip]", "[solver]\nkind = 'magic'\n[tip]", r"\[solver\] kind = 'magic' is unknown"),
    ("units =", "units = ", "no error"),
    ("units = ", "colour = 'red'\nunits = ", "colour is an unknown key"),
    ("units = ", "units = mm #", "not valid TOML"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD)
def test_every_mistake_is_said_in_one_line(folder, old, new, words):
    assert old in GOOD
    path = written(folder, GOOD.replace(old, new))
    if words == "no error":
        load_problem(path)
        return
    with pytest.raises(InputError, match=words) as caught:
        load_problem(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


def test_missing_files_folders_and_cad(folder, tmp_path):
    for path, words in (
        (tmp_path / "robot.toml", "no such robot file"),
        (tmp_path, "is a folder"),
        (tmp_path / "part.step", "a robot file is a .toml"),
    ):
        with pytest.raises(InputError, match=words):
            load_robot(path)
    (tmp_path / "part.step").write_text("ISO-10303-21;")
    path = written(tmp_path, GOOD.replace('mesh = "bar.vtu"', 'surface = "part.step"'))
    with pytest.raises(InputError, match="STL"):
        load_robot(path)
    (tmp_path / "robot.toml").write_bytes(b"kind = \xff")
    with pytest.raises(InputError, match="cannot be read"):
        load_robot(tmp_path / "robot.toml")


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path):
    (tmp_path / "bar.vtu").symlink_to(folder / "bar.vtu")
    with pytest.raises(InputError, match="outside the folder"):
        load_robot(written(tmp_path, GOOD))


def test_solver_options(folder):
    pytest.importorskip("geosim.shape.energy.solver")
    _, _, solver = load_problem(written(folder, GOOD + '[solver]\nelement = "p1"\n'))
    assert solver == geosim.EnergyShapeSolver(element="p1")
    for text, words in (
        ("elemnt = 'p1'", "'elemnt' is not an option of EnergyShapeSolver, did you mean 'element'"),
        ("element = 'p3'", "p3"),
        ("tolerance = 'small'", "tolerance = 'small'"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            load_problem(written(folder, GOOD + f"[solver]\n{text}\n"))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kind", "key", "value"),
    [
        ("[inflation]\nvolume_ratio = [[1.5], [2.0]]", "Inflation", "volume_ratio", [[1.5], [2.0]]),
        ("[inflation]\npressure_kpa = [5, 10]", "Inflation", "pressure", [[5e3], [10e3]]),
        ("[inflation]\nvolume_ratio = [nan, 2.0]\npressure_kpa = [5, nan]", "Inflation", "pressure", [[5e3], [np.nan]]),
        ("units = 'mm'\n[cable_lengths]\nlength = [100, 90]", "CableLengths", "length", [[0.1], [0.09]]),
        ("[cable_tensions]\ntension = 2", "CableTensions", "tension", [[2.0]]),
        (
            "[edge_lengths]\nedges = [[0, 1], [1, 2]]\nratio = [[0.9, 1], [0.8, 1]]",
            "EdgeLengths",
            "ratio",
            [[0.9, 1.0], [0.8, 1.0]],
        ),
        ("[edge_lengths]\nedges = [[0, 1], [1, 2]]\nratio = 0.9", "EdgeLengths", "edges", [[0, 1], [1, 2]]),
        ("[face_areas]\nfaces = [[0, 1, 2]]\nratio = [0.9, 0.8]", "FaceAreas", "ratio", [[0.9], [0.8]]),
        ("[passive]\nduration = 2.0\nsteps = 4", "Passive", "times", [0.5, 1.0, 1.5, 2.0]),
        ("[valve_commands]\ntimes = [0, 1]\npressures_kpa = [[1], [2]]", "ValveCommands", "pressures", [[1e3], [2e3]]),
        ("[undulatory_gait]\namplitude_kpa = 5\nfrequency = 1\nphase_lag = 0.5", "UndulatoryGait", "amplitude", 5e3),
        ("[natural_shape]\ntimes = [0, 1]\ncurvature = [0, 10]", "NaturalShape", "curvature", [0.0, 10.0]),
    ],
)
def test_actuation_files(tmp_path, text, kind, key, value):
    path = tmp_path / "act.toml"
    path.write_text(text)
    actuation = load_actuation(path)
    assert type(actuation) is getattr(geosim, kind)
    assert np.allclose(getattr(actuation, key), value, equal_nan=True)


def test_actuations_go_together(tmp_path):
    path = tmp_path / "act.toml"
    path.write_text("[inflation]\nvolume_ratio = [1.5, 2]\n[cable_tensions]\ntension = [1, 2]")
    assert [type(p).__name__ for p in load_actuation(path).parts] == ["Inflation", "CableTensions"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "commands nothing"),
        ("[inflatoin]\nvolume_ratio = 2", r"\[inflatoin\].*did you mean 'inflation'"),
        ("[inflation]\nvolume_ration = 2", "'volume_ration' is unknown, did you mean 'volume_ratio'"),
        ("[inflation]\nvolume_ratio = 'big'", "'big' must be a number"),
        ("[inflation]\nvolume_ratio = [[1], [1, 2]]", "numbers"),
        ("[inflation]\nvolume_ratio = 0", "impossible"),
        ("[inflation]\nvolume_ratio = [[1, 2, 3]]", "3 columns"),
        ("[inflation]\nvolume_ratio = 2\npressure_kpa = 2", "both"),
        ("inflation = 3", "must be a table"),
        ("[edge_lengths]\nedges = [[0, 1.5]]\nratio = 1", "whole numbers"),
        ("[edge_lengths]\nedges = [[0, 1]]", "incomplete"),
        ("[edge_lengths]\nedges = [[0, 1, 2]]\nratio = 1", r"shape \(m, 2\)"),
        ("[face_areas]\nfaces = [[0, 1, 2]]\nratio = -1", "impossible"),
        ("[face_areas]\nfaces = 'skin'\nratio = 1", "must be a"),
        ("[valve_commands]\ntimes = [0]", "incomplete"),
        ("units = 'ell'", "'ell' is unknown"),
        ("units = 'mm'\n[cable_lengths]\nlength = [[90, 91]]", r"length = \[90, 91\] mm: 2 columns .* 1 cable"),
        ("units = 'mm'\n[cable_lengths]\nlength = [-90]", "length = -90 mm must be positive"),
        ("[inflation", "not valid TOML"),
    ],
)
def test_wrong_actuation_files(tmp_path, text, words):
    path = tmp_path / "act.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load_actuation(path, bar_robot(cables=[Cable([(0.0, 0.01, 0.01), (0.1, 0.01, 0.01)])]))
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_numbers_that_look_like_another_unit_are_said():
    """A finger of 11 cm read in centimetres instead of millimetres, kPa for Pa; what is meant so says nothing."""
    finger = trimesh.creation.box((110.0, 20.0, 18.0))
    held = geosim.Select.plane("x", below=-0.05)
    made = lambda units, mu: geosim.VolumetricRobot.from_surfaces(  # noqa: E731
        finger, material=geosim.NeoHookean(mu=mu), fixed=held, units=units, max_edge=0.05
    )
    assert made("mm", 50e3).notices == ()
    wrong = made("cm", 50.0).notices
    assert any("1100 x 200 x 180 mm" in notice and 'write units = "mm"' in notice for notice in wrong)
    assert any("shear modulus of 50 Pa is softer than a gel" in notice for notice in wrong)
    assert any("stiffer than any rubber" in notice for notice in made("mm", 1e9).notices)
