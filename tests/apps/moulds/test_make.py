"""What is made of a robot is watertight, holds its volume, and comes apart."""

from __future__ import annotations

import csv
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
import trimesh
from manifold3d import CrossSection, Manifold

import geosim
from geosim import VolumetricRobot, generate
from geosim.apps.moulds import page
from geosim.apps.moulds.body import walls
from geosim.apps.moulds.moulds import SCRAPES, moulds
from geosim.apps.moulds.parting import hold, is_free, lid_planes, partings, undercut
from geosim.apps.moulds.solids import arrays, block, cylinder, half_space, of_robot
from geosim.cli import main
from geosim.geometry.step import read_step, write_step

SMALL = {
    "pneunet": dict(chambers=2),
    "round_finger": dict(length=40e-3, chambers=2),
    "fiber_bender": dict(length=40e-3),
    "twister": dict(length=30e-3),
    "bellows": dict(convolutions=2),
    "membrane": dict(chambers=1, size=100e-3),
    "tendon_finger": dict(joints=1),
    "gripper": dict(count=3),
}
QUICK = ("pneunet",)
DESIGNS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SMALL]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Parts of a small design of every generator, made once."""
    known = {}

    def of(name):
        if name not in known:
            robot = getattr(generate, name)(**SMALL[name]).robot("dragon-skin-20-fang2022", preview=True)
            known[name] = robot, geosim.make(robot, tmp_path_factory.mktemp(name), step=name == "tendon_finger")
        return known[name]

    yield of
    known.clear()


@pytest.mark.parametrize("name", DESIGNS)
def test_parts_are_watertight_and_hold_the_volume_that_is_solved(made, name):
    robot, parts = made(name)
    assert abs(parts.cavity_error) < 1e-3
    for part in parts.parts:
        file = trimesh.load(parts.folder / f"{part.name}.stl")
        assert file.is_watertight, part.name
        assert file.volume == pytest.approx(part.volume * 1e9, rel=1e-4)
    cast = sum(p.volume for p in parts.parts if p.kind == "cast")
    bores = len(parts.inlets) * np.pi / 4 * 3e-3**2 * 20e-3
    assert robot.body_volume - bores < cast * 1.001
    assert cast < robot.body_volume * 1.001


@pytest.mark.parametrize("name", DESIGNS)
def test_moulds_leave_what_is_cast_or_say_why_not(made, name):
    """Drawn off in twenty small steps, not those that the parts were made with."""
    _, parts = made(name)
    cast = [p.solid for p in parts.parts if p.kind == "cast"]
    for part in parts.parts:
        if part.draw is None:
            continue
        way = np.abs(part.draw) @ part.size
        worst = max(
            (part.solid.translate(s * way * part.draw) ^ c).volume() / c.volume()
            for c in cast[:1]
            for s in np.linspace(0.02, 1.2, 20)
        )
        is_of_lid = part.name == "lid_tray"
        assert is_of_lid or worst < 1e-3 or "undercut" in part.note, part.name
    if name in ("pneunet", "fiber_bender", "membrane"):  # what is long is pulled out of no deep mould
        assert {p.name for p in parts.parts} >= {"core_plate", "lid_tray", "cast_lid"}
        assert ("mould_lower" if name == "fiber_bender" else "mould") in {p.name for p in parts.parts}
    if name in ("bellows", "twister"):
        assert "soluble" in parts.part("core_1").note
    if name == "gripper":  # the gaps between the chambers of its fingers
        assert parts.part("mould_lower").undercut == pytest.approx(9e-3, rel=1e-3)
        assert any("mould_lower" in said and "soluble" in said for said in parts.notices)


@pytest.mark.slow
def test_every_chamber_opens_through_its_inlet(made):
    """Once bored the body has no sealed cavity: its surface is in one piece."""
    for name in ("pneunet", "bellows"):
        _, parts = made(name)
        assert len(parts.part("body").solid.decompose()) == 1
        assert all(bore.is_held for bore in parts.inlets)
        file = trimesh.load(parts.folder / "body.stl")
        assert len(file.split(only_watertight=False)) == 1


def test_the_table_and_the_3mf_hold_the_parts(made):
    robot, parts = made("pneunet")
    with (parts.folder / "parts.csv").open(encoding="utf-8") as file:
        rows = {row["part"]: row for row in csv.DictReader(file)}
    cast = parts.part("cast_body").volume
    density = next(iter(robot.materials.values())).density
    assert float(rows["cast_body"]["mass_g"]) == pytest.approx(cast * density * 1e3, rel=1e-3)
    with zipfile.ZipFile(parts.folder / "parts.3mf") as file:
        model = ElementTree.fromstring(file.read("3D/3dmodel.model"))
    names = [o.get("name") for o in model.iter() if o.tag.endswith("}object")]
    assert names == [p.name for p in parts.parts if p.kind != "cast"]
    page = (parts.folder / "index.html").read_text(encoding="utf-8")
    assert all(p.name in page for p in parts.parts)


def test_the_wall_is_as_thick_as_the_design(made):
    robot, parts = made("pneunet")
    assert parts.walls.least[0] == pytest.approx(robot.design.parameters["wall"], rel=1e-3)
    assert walls(block((0, 0, 0), (3, 2, 1))).least[0] == pytest.approx(1.0)


@pytest.mark.slow
def test_fibres_are_drawn_in_the_body_that_holds_them(made, monkeypatch, tmp_path):
    robot, parts = made("fiber_bender")
    drawn, layers = page._drawing, []

    def drawing(given, title):
        layers.append(given)
        return drawn(given, title)

    monkeypatch.setattr(page, "_drawing", drawing)
    page.write_picture(parts.parts, parts.walls, tmp_path, robot.fibres)
    k = next(i for i, layer in enumerate(layers[0]) if layer.opacity < 1.0)
    body, threads = (layer.points for layer in layers[0][k : k + 2])
    slack = 0.01 * np.ptp(body[:, 0])
    assert (threads.min(axis=0) > body.min(axis=0) - slack).all()
    assert (threads.max(axis=0) < body.max(axis=0) + slack).all()


def test_walls_beside_the_edge_of_a_cavity_are_as_thick_as_the_way_to_it():
    """A plate of 1 mm as cavity, 4 mm under the top of a block of 10 mm: beside its edge the way to it is a slanted one."""
    solid = block((0, 0, 0), (20, 20, 10)) - block((5, 5, 5), (15, 15, 6))
    found = walls(solid)
    at = found.vertices[found.faces].mean(axis=1)
    beside = (at[:, 2] > 9.99) & (at[:, 0] > 15.2) & (at[:, 0] < 16.0) & (np.abs(at[:, 1] - 10.0) < 4.0)
    assert beside.any()
    assert found.thickness[beside] == pytest.approx(4.0 / np.cos(np.radians(40.0)))
    far = (at[:, 2] > 9.99) & (at[:, 0] > 19.5)
    assert found.thickness[far] == pytest.approx(10.0)


def _holds(solid, axis, height):
    """Depths [m] in which a solid holds the lower and the upper half of a block round it."""
    low, high = np.reshape(solid.bounding_box(), (2, 3))
    negative = block(low - 5e-3, high + 5e-3) - solid
    halves = (half_space(negative, axis, height, above) for above in (False, True))
    return [hold(half, sense * np.eye(3)[axis], solid).depth for half, sense in zip(halves, (-1.0, 1.0))]


def _turned(points, segments=48):
    return CrossSection([points]).revolve(segments)


def _solid(name):
    """One of the solids with known undercuts; the library of solids complains of any that is there when Python ends."""
    ring = CrossSection.circle(4e-3, 32).translate((16e-3, 0.0)).revolve(48)
    return {
        "ball": Manifold.sphere(10e-3, 72),
        "ring": ring,
        "arch": ring.rotate((90, 0, 0)),
        "hourglass": _turned([(0, -20e-3), (10e-3, -20e-3), (4e-3, 0), (10e-3, 20e-3), (0, 20e-3)]),
    }[name]


@pytest.mark.parametrize(
    ("name", "axis", "height", "depths"),
    [
        ("ball", 2, 0.0, (0.0, 0.0)),
        ("ball", 2, 6e-3, (2e-3, 0.0)),  # R - (R^2 - h^2)^(1/2)
        ("ring", 2, 0.0, (0.0, 0.0)),
        ("arch", 1, 0.0, (0.0, 0.0)),
        ("arch", 2, 0.0, (4e-3, 4e-3)),  # under the arch, half as wide as its bar is thick
        ("hourglass", 0, 0.0, (0.0, 0.0)),
        ("hourglass", 2, 0.0, (6e-3, 6e-3)),
        ("hourglass", 2, -20e-3, (0.0, 6e-3)),
    ],
)
def test_undercuts_are_as_deep_as_they_are(name, axis, height, depths):
    """Up to the facets; turned over, the same."""
    solid = _solid(name)
    assert _holds(solid, axis, height) == pytest.approx(depths, abs=0.06e-3)
    assert _holds(solid.rotate((180, 0, 0)), axis, -height if axis else height) == pytest.approx(
        depths if axis == 0 else depths[::-1], abs=0.06e-3
    )


def test_a_ball_parts_at_its_middle_and_a_mushroom_holds():
    ball = Manifold.sphere(10e-3, 48)
    parting = partings(ball, (0, 1, 2))[0]
    assert is_free(ball, parting.axis, parting.height)
    assert parting.height == pytest.approx(0.0, abs=1e-4)
    stem = cylinder([0, 0, 0], [0, 0, 20e-3], 6e-3)
    mushroom = block([-10e-3, -10e-3, 15e-3], [10e-3, 10e-3, 20e-3]) + stem
    assert undercut(*arrays(mushroom), 2, 0.0) == pytest.approx(400e-6 - np.pi / 4 * 6e-3**2, rel=0.02)
    mould = block([-15e-3, -15e-3, 0], [15e-3, 15e-3, 25e-3]) - mushroom
    held = hold(mould, np.array([0, 0, 1.0]), mushroom)
    # from the stem to the rim of the square hat, deepest towards its corners
    assert held.depth == pytest.approx(10e-3 - 3e-3 / np.sqrt(2.0), rel=1e-3)
    assert held.place[2] == pytest.approx(15e-3, rel=1e-3)


def test_a_spool_with_a_hole_in_its_end_comes_out_of_three_parts():
    """No plane frees both groove and hole: the plug leaves upwards, what fills the groove in two pieces sideways."""
    spool = _turned([(0, -10e-3), (10e-3, -10e-3), (4e-3, 0), (10e-3, 10e-3), (10e-3, 20e-3), (0, 20e-3)])
    spool -= cylinder([0, 0, 12e-3], [0, 0, 21e-3], 4e-3)
    made = {p.name: p for p in moulds(spool, [], []) if p.kind == "mould"}
    assert set(made) == {"mould_upper", "mould_lower_1", "mould_lower_2"}
    for part in made.values():
        assert part.undercut < SCRAPES
        others = sum((p.solid for p in made.values() if p is not part), spool)
        assert (part.solid ^ others).volume() < 1e-12
        way = part.draw * (part.size @ np.abs(part.draw))
        assert max((part.solid.translate(tuple(s * way)) ^ spool).volume() for s in np.linspace(0.02, 1.0, 15)) < 1e-10


@pytest.mark.slow
def test_the_inlet_is_cast_with_the_body(made):
    """A rod through the mould, or a stem on the tray, fills the bore; the mould lets it through."""
    _, parts = made("pneunet")
    rod, cast, bore = parts.part("rod_1"), parts.part("cast_body"), parts.inlets[0].bore
    assert (cast.solid ^ bore).volume() < 1e-3 * bore.volume()
    assert (rod.solid ^ parts.part("mould").solid).volume() == 0.0
    assert (rod.solid ^ parts.part("core_plate").solid).volume() < 1e-6 * rod.volume
    _, parts = made("membrane")
    assert "stems" in parts.part("lid_tray").note
    assert (parts.part("cast_lid").solid ^ parts.inlets[0].bore).volume() < 1e-3 * parts.inlets[0].bore.volume()


def test_no_film_of_a_mould_stays_on_floors_at_its_parting_plane():
    """The plane lies at the floors of two joints: above them the lower half has its four pins alone."""
    slots = [block([x, -1e-3, 5e-3], [x + 4e-3, 41e-3, 16e-3]) for x in (15e-3, 40e-3)]
    lower = moulds(block([0, 0, 0], [60e-3, 40e-3, 15e-3]) - slots[0] - slots[1], [], [])[0]
    assert lower.note == "parts at z = 5 mm"
    assert len(half_space(lower.solid, 2, 5e-3 - 1e-9, True).decompose()) == 4


def test_every_top_of_the_mould_has_a_vent():
    """Air stays under each of three towers: a sprue over the highest, a vent over the others."""
    towers = [block([x, 0, 0], [x + 8e-3, 50e-3, h]) for x, h in ((0, 20e-3), (12e-3, 18e-3), (24e-3, 14e-3))]
    body = sum(towers[1:], towers[0]) + block([0, 0, -5e-3], [32e-3, 50e-3, 0])
    upper = {p.name: p for p in moulds(body, [], [])}["mould_upper"].solid
    _, high = np.reshape(upper.bounding_box(), (2, 3))
    assert half_space(upper, 2, high[2] - 1e-3, True).genus() == 3


def test_a_cone_is_drawn_by_its_base_and_a_dumbbell_by_no_side():
    cone = Manifold.cylinder(10e-3, 5e-3, 2e-3, 32)
    assert (2, 1.0, 0.0) in [(a, s, round(h, 9)) for a, s, h in lid_planes([cone])]
    ball = Manifold.sphere(4e-3, 32)
    assert lid_planes([ball + ball.translate([10e-3, 0, 0]) + cylinder([0, 0, 0], [10e-3, 0, 0], 2e-3)]) == []


@pytest.mark.slow
def test_a_robot_from_surfaces_is_made_from_the_command_line(tmp_path, capsys):
    generate.round_finger(length=30e-3).save(tmp_path)
    robot = tmp_path / "robot.toml"
    robot.write_text(robot.read_text(encoding="utf-8").replace('units = "mm"', 'units = "mm"\npreview = true'))
    with pytest.raises(SystemExit) as done:
        main.main(["make", str(robot), "--out", str(tmp_path / "parts"), "--least-wall-mm", "2.5"])
    assert done.value.code == 0
    said = capsys.readouterr().out
    assert "thinner than 2.5 mm: thicken it" in said
    assert {"body.stl", "parts.3mf", "parts.csv", "parts.png", "walls.png", "index.html"} <= {
        p.name for p in (tmp_path / "parts").iterdir()
    }


@pytest.mark.slow
def test_a_body_without_chambers_gets_halves_alone(tmp_path):
    bar = trimesh.creation.box((0.03, 0.01, 0.01))
    robot = VolumetricRobot.from_surfaces(
        bar, material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.0149, preview=True
    )
    skin, chambers = of_robot(robot)
    assert skin.volume() == pytest.approx(3e-6)
    assert chambers == []
    with pytest.raises(geosim.InputError, match=r"tube \[m\]"):
        geosim.make(robot, tmp_path, tube=0.0, step=False)
    assert {p.name for p in geosim.make(robot, tmp_path, step=False).parts} >= {"body", "cast_body"}


@pytest.mark.slow
def test_a_step_file_holds_the_parts_as_solids_by_name(made):
    pytest.importorskip("OCP")
    _, parts = made("tendon_finger")
    for name in ("body", "mould_lower"):
        vertices, faces, _ = read_step(parts.folder / "parts.step", name, name)
        assert trimesh.Trimesh(vertices, faces).volume == pytest.approx(parts.part(name).volume, rel=1e-3), name
    with pytest.raises(geosim.InputError, match=r"parts.step"):
        write_step({"body": parts.folder / "index.html"}, parts.folder / "parts.step")
