"""Designs: closed surfaces of known volume for any dimensions that can be, and refusals of those that cannot."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest

import geosim
from geosim import generate
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.geometry.surface import check_surface

SOLVED = [name for name in generate.GENERATORS if name not in ("membrane", "gripper") and "fiber" not in name]


def sector_area(radius: float, count: int, inset: float) -> float:
    """Area of a sector whose straight sides are moved in; two of them and the inset 0 are half a disc."""
    half = math.pi / count - math.asin(inset / radius)
    return radius**2 * half - inset / math.sin(math.pi / count) * radius * math.sin(half)


def pneunet(chambers, chamber_length, wall, gap, width, height, base, channel, cap, tip_height=None):
    """A block and a cavity for every chamber, solid ends as high as theirs, links below the thicker wall of both."""
    lengths, walls, heights = (np.broadcast_to(v, chambers) for v in (chamber_length, wall, height))
    if tip_height is not None:
        heights = height + (tip_height - height) * np.arange(chambers) / (chambers - 1)
    body = width * (np.sum((lengths + 2 * walls) * heights) + cap * (heights[0] + heights[-1]))
    cavity = np.sum(lengths * (width - 2 * walls) * (heights - base - walls))
    for a, b in itertools.pairwise(walls):
        body += width * gap * (base + channel[1] + max(a, b))
        cavity += (a + gap + b) * channel[0] * channel[1]
    return body, [cavity]


def frustum(area, length, ends):
    """Volume of a section of an area at scale 1 between two scales: (a^2 + a b + b^2) / 3 of the prism."""
    a, b = ends
    return area * length * (a * a + a * b + b * b) / 3


def round_finger(chambers, length, radius, wall, cap, tip_radius=None):
    inner, scale = radius - wall, lambda x: 1 + ((tip_radius or radius) / radius - 1) * x / length
    area = math.pi * inner**2 if chambers == 1 else sector_area(inner, chambers, wall / 2)
    chamber = frustum(area, length - 2 * cap, (scale(cap), scale(length - cap)))
    return frustum(math.pi * radius**2, length, (1, scale(length))), [chamber] * chambers


def fiber_extender(length, radius, wall, cap, **fibres):
    return round_finger(1, length, radius, wall, cap)


fiber_twister = fiber_extender


def fiber_bender(length, radius, wall, cap, pitch, fibre_radius):
    return 0.5 * math.pi * radius**2 * length, [sector_area(radius - wall, 2, wall) * (length - 2 * cap)]


def twister(length, radius, wall, turns, cap, pairs, parts):
    flat = 2 * (radius - wall) - wall
    return math.pi * radius**2 * length, [(flat * wall + math.pi * wall**2 / 4) * (length - 2 * cap)]


def twiner(length, radius, chamber_radius, offset, turns, cap, tip, rings):
    """Across the axis every section of the chamber is the same circle, wherever it has wound to."""
    return math.pi * radius**2 * length, [math.pi * chamber_radius**2 * (length - cap - tip)]


def bellows(convolutions, outer_radius, inner_radius, pitch, wall, cap):
    cone = lambda a, b: math.pi / 3 * (a * a + a * b + b * b) * convolutions * pitch  # noqa: E731
    less = wall * math.hypot(pitch / 2, outer_radius - inner_radius) / (pitch / 2)
    body = cone(outer_radius, inner_radius) + math.pi * inner_radius**2 * 2 * cap
    return body, [cone(outer_radius - less, inner_radius - less)]


def membrane(chambers, size, thickness, pad_height, frame):
    columns = max(d for d in range(1, chambers + 1) if chambers % d == 0 and d * d <= chambers)
    inner = [(size - (n + 1) * frame) / n for n in (columns, chambers // columns)]
    return size**2 * (frame + pad_height + thickness), [inner[0] * inner[1] * pad_height] * chambers


def tendon_finger(joints, length, width, height, notch, cable_height):
    return width * (length * height - joints * notch[0] * notch[1]), []


def kresling(stories, sides, radius, pitch, turns, wall, cap):
    """Prismatoids, whose sections halfway have corners in the middle of both kinds of fold."""
    half, inner = math.pi / sides, 1 - wall / (radius * math.cos(math.pi / sides))
    end = 0.5 * sides * radius**2 * math.sin(2 * half)
    middle = sides * radius**2 * math.cos(math.pi * turns) * math.cos(half - math.pi * turns) * math.sin(half)
    folded = stories * pitch * (2 * end + 4 * middle) / 6
    return folded + 2 * cap * end, [inner**2 * folded]


def vacuum_muscle(columns, rows, cell, beam, depth, skin, channel, cap):
    length, width = columns * cell[0] + (columns - 1) * beam, rows * cell[1] + (rows - 1) * beam
    channels = ((columns - 1) * rows + columns * (rows - 1)) * beam * channel[0] * channel[1]
    cavity = columns * rows * cell[0] * cell[1] * (depth - 2 * skin) + channels
    return (length + 2 * cap) * (width + 2 * beam) * depth, [cavity]


CLOSED_FORMS = {f.__name__: f for f in (pneunet, round_finger, fiber_bender, twister, bellows, membrane, tendon_finger)}
CLOSED_FORMS |= {"fiber_extender": fiber_extender, "fiber_twister": fiber_twister}
CLOSED_FORMS |= {"kresling": kresling, "vacuum_muscle": vacuum_muscle, "twiner": twiner}


def varied(name: str, rng: np.random.Generator) -> generate.Design:
    """A design with every dimension at 0.5 to 2 times its default; what cannot be is drawn again."""
    signature = inspect.signature(generate.GENERATORS[name])
    while True:
        given = {}
        for key, parameter in signature.parameters.items():
            value, factor = parameter.default, rng.uniform(0.5, 2.0)
            if isinstance(value, int):
                given[key] = max(1, round(value * factor))
            elif isinstance(value, float):
                given[key] = value * factor
            elif isinstance(value, tuple):
                given[key] = tuple(v * rng.uniform(0.5, 2.0) for v in value)
        try:
            return generate.make(name, **given)
        except InputError:
            continue


def coarse(path):
    """Have a robot file ask for edges of 10 mm; return its path."""
    path.write_text(path.read_text(encoding="utf-8").replace("[body]\n", "[body]\nmax_edge = 10\n"))
    return path


def test_all_designs_are_there():
    assert generate.names() == (
        "pneunet",
        "round_finger",
        "fiber_bender",
        "twister",
        "bellows",
        "membrane",
        "tendon_finger",
        "gripper",
        "fiber_extender",
        "fiber_twister",
        "kresling",
        "vacuum_muscle",
        "twiner",
        "tendon_arm",
        "rod_gripper",
        "entangler",
    )


EACH = {"chamber_length": (6e-3, 9e-3, 7e-3), "wall": (2e-3, 1e-3, 1.5e-3), "height": (18e-3, 20e-3, 12e-3)}


@pytest.mark.parametrize("given", [*({key: value} for key, value in EACH.items()), EACH, {"tip_height": 11e-3}])
def test_chambers_of_their_own_lengths_walls_and_heights(given, tmp_path):
    design = generate.pneunet(3, **given)
    body, (cavity,) = pneunet(**design.parameters)
    assert design.body.volume == pytest.approx(body, rel=1e-9)
    assert design.chambers[0].volume == pytest.approx(cavity, rel=1e-9)
    high = np.broadcast_to(given.get("height", 18e-3), 3)
    for x, wanted in zip(design.body.bounds[:, 0], (high[0], given.get("tip_height", high[-1]))):
        assert design.body.vertices[design.body.vertices[:, 0] == x, 2].max() == pytest.approx(wanted)
    assert design.body.is_watertight
    assert check_surface(design.body).notices == ()
    plain = generate.pneunet(3)
    assert np.array_equal(design.body.faces, plain.body.faces), "neighbouring designs have the same triangles"
    lengths = np.broadcast_to(given.get("chamber_length", 8e-3), 3) + 2 * np.broadcast_to(given.get("wall", 2e-3), 3)
    assert design.body.bounds[1, 0] == pytest.approx(lengths.sum() + 2 * 2e-3 + 2 * 4e-3)
    design.save(tmp_path)
    kept = geosim.load_robot(coarse(tmp_path / "robot.toml")).design
    assert kept.parameters == design.parameters


def test_a_chamber_moves_alone_with_its_own_height():
    """Derivatives by one of several numbers: the tops of that chamber alone rise, each by one."""
    design = generate.pneunet(3, height=(18e-3, 16e-3, 14e-3))
    body, (cavity,) = generate.derivative(design, "height:1")
    for motion, surface in ((body, design.body), (cavity, design.chambers[0])):
        top = np.isclose(surface.vertices[:, 2], 16e-3 - (0.0 if surface is design.body else 2e-3))
        np.testing.assert_allclose(motion, np.outer(top, [0, 0, 1]), atol=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"height": (18e-3, 18e-3)}, "height.* has 2 numbers; there are 3 parts"),
        ({"wall": (2e-3, 11e-3, 2e-3)}, r"wall = 0\.011 m must be less than 0\.01 m, half the width"),
        ({"chamber_length": (8e-3, -1e-3, 8e-3)}, r"chamber_length 2.*-0\.001"),
        ({"height": (18e-3, 7e-3, 18e-3)}, r"channel height = 0\.002 m must be less than 0\.001 m"),
        ({"height": (18e-3,) * 3, "tip_height": 1e-2}, "tip_height does not go with a height of each"),
    ],
)
def test_a_chamber_that_cannot_be_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        generate.pneunet(3, **given)


@pytest.mark.parametrize("chambers", [1, 3, 4])
def test_a_tapered_arm_is_a_frustum_with_frustums_in_it(chambers):
    design = generate.round_finger(chambers, tip_radius=4e-3)
    body, cavities = round_finger(**design.parameters)
    assert design.body.volume == pytest.approx(body, rel=1e-9)
    assert [c.volume for c in design.chambers] == pytest.approx(cavities, rel=1e-9)
    wall = np.linalg.norm(design.body.vertices[:, 1:], axis=1).max() - 10e-3
    assert 0 <= wall < 0.1e-3, "its first end is that of the round finger"
    with pytest.raises(InputError, match=r"tip_radius.*-0\.001"):
        generate.round_finger(tip_radius=-1e-3)


@pytest.mark.slow
def test_fibres_make_a_tube_lengthen_or_turn():
    """Rings hold the width, so that it lengthens twice as far; one family turns the tip against its own sense."""
    size = dict(length=20e-3, radius=8e-3, cap=2e-3)
    around = geosim.Environment(self_contact=False)
    solver = geosim.EnergyShapeSolver(element="p1", check_stability=False)
    longer, wider, turned = {}, {}, {}
    for name, given in (("round_finger", {}), ("fiber_extender", {"pitch": 4e-3}), ("fiber_twister", {"turns": 0.6})):
        robot = generate.make(name, **size, **given).robot("ecoflex-00-30-fang2022", preview=True)
        result = geosim.solve(robot, geosim.Inflation(pressure=8e3), around, solver=solver)
        from_axis = np.linalg.norm(robot.vertices[:, 1:], axis=1)
        middle = (abs(robot.vertices[:, 0] - 10e-3) < 5e-3) & (from_axis > 7.9e-3)
        wider[name] = np.mean(np.linalg.norm(result.frames[-1, middle, 1:], axis=1) / from_axis[middle]) - 1
        longer[name], turned[name] = result.tip[-1, 0] - 20e-3, result.twist_angle[-1]
    assert longer["fiber_extender"] > 1.4 * longer["round_finger"]  # measured 2.1
    assert abs(wider["fiber_extender"]) < 0.2 * wider["round_finger"]  # 0.3 and 4.8 %
    assert turned["fiber_twister"] < -0.05  # 5.7 degrees
    assert abs(turned["fiber_extender"]) < 0.1 * abs(turned["fiber_twister"])


def drawn(design: generate.Design, material: str, pressure: float) -> tuple[float, float]:
    """By how much of its length vacuum shortens a design, and how far its tip turns [rad]."""
    robot = design.robot(material, preview=True)
    solver = geosim.EnergyShapeSolver(element="p1", check_stability=False)
    result = geosim.solve(robot, geosim.Inflation(pressure=pressure), solver=solver)
    length = design.body.bounds[1, 0]
    return 1 - result.tip[-1, 0] / length, result.twist_angle[-1]


@pytest.mark.slow
def test_one_story_of_folds_turns_its_tip_and_two_of_opposite_sense_do_not():
    """Neither does a tube without folds: a cylinder of as thick a wall."""
    shorter, turned = drawn(generate.kresling(stories=1), "dragon-skin-20-fang2022", -2e3)
    assert shorter > 0.01
    assert turned > np.deg2rad(0.5)
    shorter, twice = drawn(generate.kresling(stories=2), "dragon-skin-20-fang2022", -1e3)
    assert shorter > 0.005
    assert abs(twice) < 0.1 * turned


@pytest.mark.slow
def test_a_muscle_shortens_more_than_in_proportion_to_vacuum():
    """Four times the vacuum shortens the block more than five times as far."""
    design = generate.vacuum_muscle(columns=2)
    few, many = (drawn(design, "ecoflex-00-30-fang2022", p)[0] for p in (-1e3, -4e3))
    assert many > 5 * few > 0


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("kresling", {"turns": 0.2}, "turns = 0.2"),
        ("kresling", {"wall": 0.012}, r"wall = 0\.012 m must be less than 0\.0116"),
        ("kresling", {"sides": 2}, "sides = 2"),
        ("vacuum_muscle", {"channel": (11e-3, 3e-3)}, r"channel width = 0\.011 m must be less than 0\.01 m, the cells"),
        ("vacuum_muscle", {"cell": (-1e-3, 1e-2)}, r"cell length.*-0\.001"),
        ("vacuum_muscle", {"cell": (1e-2, 1e-2, 1e-2)}, "cell = "),
        ("vacuum_muscle", {"cell": 5e-3}, "cell = "),
        ("vacuum_muscle", {"skin": 10e-3}, "channel height = 0.003 m must be less than 0 m"),
    ],
)
def test_what_cannot_be_drawn_together_is_refused(name, given, said):
    with pytest.raises(InputError, match=said):
        generate.make(name, **given)


@pytest.mark.parametrize("name", list(CLOSED_FORMS))
def test_volumes_are_those_of_the_closed_forms_for_any_dimensions(name):
    rng = np.random.default_rng(1)
    for design in [generate.make(name), *(varied(name, rng) for _ in range(20))]:
        body, chambers = CLOSED_FORMS[name](**design.parameters)
        assert design.body.volume == pytest.approx(body, rel=1e-9)
        assert [c.volume for c in design.chambers] == pytest.approx(chambers, rel=1e-9)


@pytest.mark.parametrize("name", generate.GENERATORS)
def test_surfaces_are_clean_and_hold_the_chambers(name):
    """Watertight, outward, without slivers, crossings or repairs; what is held and the tip are there."""
    rng = np.random.default_rng(2)
    for design in [generate.make(name), *(varied(name, rng) for _ in range(3))]:
        for surface in (design.body, *design.chambers):
            assert surface.is_watertight
            assert surface.volume > 0
            assert check_surface(surface).notices == ()
        assert design.fixed(design.body.vertices).any()
        low, high = design.body.bounds
        for chamber in design.chambers:
            assert (chamber.bounds[0] > low).all()
            assert (chamber.bounds[1] < high).all()


def test_a_gripper_is_its_fingers_and_a_disc():
    finger = generate.pneunet(chambers=3)
    design = generate.gripper(finger, count=4, radius=40e-3, palm=5e-3)
    width, height = finger.parameters["width"], finger.parameters["height"]
    reach = math.hypot(40e-3 + height, width / 2) + 5e-3
    assert design.body.volume == pytest.approx(4 * finger.body.volume + math.pi * reach**2 * 5e-3, rel=1e-9)
    assert len(design.chambers) == 4
    first = design.chambers[0]
    assert first.bounds[0, 0] > 40e-3, "finger 1 stands at +x"
    assert first.bounds[1, 2] < 0, "fingers hang down"
    tip = design.body.vertices[design.tip(design.body.vertices)]
    assert len(tip) > 0
    assert (tip[:, 0] > 0).all(), "the tip is that of finger 1"


def test_chambers_of_a_round_finger_count_from_z_counter_clockwise_seen_from_x():
    centres = [c.center_mass for c in generate.round_finger(chambers=4).chambers]
    turned = [np.degrees(np.arctan2(-c[1], c[2])) for c in centres]
    assert np.allclose(np.mod(np.round(turned, 6), 360), [0, 90, 180, 270])


@pytest.mark.parametrize(
    ("name", "dimension", "value", "limit"),
    [
        ("pneunet", "wall", 11e-3, "0.01"),
        ("pneunet", "wall", -1e-3, "positive"),
        ("pneunet", "chambers", 0, "at least 1"),
        ("pneunet", "channel", (17e-3, 2e-3), "0.016"),
        ("round_finger", "chambers", 5, "at most 4"),
        ("round_finger", "cap", 50e-3, "0.05"),
        ("fiber_bender", "wall", 4e-3, "0.004"),
        ("twister", "wall", 7e-3, "0.00666667"),
        ("twiner", "chamber_radius", 3e-3, "0.00270786"),
        ("twiner", "offset", 4e-3, "0.00395"),
        ("twiner", "tip", 118e-3, "0.002"),
        ("bellows", "inner_radius", 12e-3, "0.012"),
        ("membrane", "frame", 90e-3, "0.0833333"),
        ("tendon_finger", "notch", (4e-3, 15e-3), "0.015"),
        ("gripper", "radius", 5e-3, "0.0173205"),
    ],
)
def test_impossible_dimensions_are_refused_by_name_value_and_limit(name, dimension, value, limit):
    with pytest.raises(InputError) as error:
        generate.make(name, **{dimension: value})
    shown = value[1] if dimension == "notch" else value[0] if dimension == "channel" else value
    assert limit in str(error.value)
    if name != "gripper":  # there the width of the fingers is too large for the radius
        assert dimension in str(error.value)
        assert f"{shown:g}" in str(error.value)


def test_unknown_designs_and_dimensions_are_refused():
    with pytest.raises(InputError, match="use one of pneunet"):
        generate.make("pneunets")
    with pytest.raises(InputError, match="thickness"):
        generate.make("pneunet", thickness=1e-3)


def test_a_design_keeps_all_vertices_of_its_surfaces(tmp_path):
    """Derivatives by its dimensions need them, however fine they are for the mesh."""
    design = generate.round_finger(length=20e-3)
    design.save(tmp_path)
    for robot in (design.robot(max_edge=10e-3), geosim.load_robot(coarse(tmp_path / "robot.toml"))):
        assert not any("simplified" in note for note in robot.notices)
        assert robot.chamber_volumes[0] == pytest.approx(design.chambers[0].volume, rel=1e-6)


@pytest.mark.parametrize("turns", [0.6, -0.6])
def test_a_nearly_round_slot_that_hardly_winds_is_meshed_coarsely(turns):
    """Long, sheared triangles along it made half a million tets of it, some of them flat."""
    design = generate.twister(length=130e-3, radius=7.7e-3, wall=3.9e-3, turns=turns, cap=4.5e-3)
    robot = design.robot(max_edge=30e-3)
    assert len(robot.tets) < 20_000
    assert topology.tet_volumes(robot.vertices, robot.tets[robot.regions == 1]).sum() == pytest.approx(
        design.chambers[0].volume, rel=1e-9
    )


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("pneunet", "wall"),
        ("pneunet", "channel:1"),
        ("bellows", "wall"),
        ("twister", "turns"),
        ("twiner", "turns"),
        ("twiner", "offset"),
        ("gripper", "finger_wall"),
    ],
)
def test_vertices_move_with_a_dimension_as_their_derivative_says(name, parameter):
    design = generate.make(name)
    body, chambers = generate.derivative(design, parameter)
    key, _, place = parameter.partition(":")
    value, step = design.parameters[key], 1e-4
    new = value * (1 + step) if not place else tuple(v * (1 + step * (str(i) == place)) for i, v in enumerate(value))
    moved = generate.make(name, **{**design.parameters, key: new})
    size = step * (value if not place else value[int(place)])
    for surface, other, slope in zip((design.body, *design.chambers), (moved.body, *moved.chambers), (body, *chambers)):
        change = (np.asarray(other.vertices) - surface.vertices) / size
        assert np.abs(change - slope).max() <= 1e-3 * np.abs(slope).max() + 1e-9
    assert max(np.abs(c).max() for c in chambers) > 0


def test_counts_have_no_derivative():
    with pytest.raises(InputError, match="no dimension that can vary"):
        generate.derivative(generate.pneunet(), "chambers")


def test_a_saved_design_is_loaded_with_its_dimensions(tmp_path):
    design = generate.pneunet(chambers=1, wall=1.8e-3)
    files = design.save(tmp_path / "finger")
    assert files == ["body.stl", "chamber_1.stl", "robot.toml"]
    robot = geosim.load_robot(coarse(tmp_path / "finger" / "robot.toml"))
    assert robot.design.name == "pneunet"
    assert robot.design.parameters == design.parameters
    assert robot.chamber_volumes[0] == pytest.approx(design.chambers[0].volume, rel=1e-6)
    assert len(robot.fixed) > 3
    assert robot.vertices[robot.fixed, 0].max() < 1e-6
    assert robot.vertices[robot.tip, 0].min() > design.body.bounds[1, 0] - 1e-6


def test_a_robot_of_a_design_has_its_volumes_cables_and_name():
    design = generate.tendon_finger(joints=2, length=60e-3)
    robot = design.robot(preview=True)
    assert robot.design is design
    assert robot.name == "tendon_finger"
    assert robot.body_volume == pytest.approx(design.body.volume, rel=1e-9)
    assert robot.cables[0].points[:, 2] == pytest.approx(12e-3)


def test_fibres_are_wound_and_saved_with_paper(tmp_path):
    """Two opposite fibres with as many turns as pitches, and the paper under them, come back from the files."""
    design = generate.fiber_bender(length=40e-3, pitch=10e-3, layer=0.1e-3)
    assert len(design.fibres) == 2
    assert np.ptp(design.fibres[0].points[:, 0]) / design.parameters["pitch"] == pytest.approx(3)
    design.save(tmp_path)
    robot, again = design.robot(max_edge=10e-3), geosim.load_robot(coarse(tmp_path / "robot.toml"))
    np.testing.assert_allclose(again.fibres[1].points, robot.fibres[1].points, atol=1e-9)
    assert again.fibres[0].stiffness == pytest.approx(robot.fibres[0].stiffness)
    assert again.layers[0].thickness == pytest.approx(0.1e-3)
    assert np.abs(again.vertices[again.layers[0].faces][..., 2]).max() < 1e-6
    with pytest.raises(InputError, match="fingers with layers"):
        generate.gripper(generate.pneunet(layer=0.1e-3))


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVED)
def test_designs_are_meshed_and_inflated(name):
    design = varied(name, np.random.default_rng(4 if name == "bellows" else 3))  # none of more than 12,000 tets
    robot = design.robot(preview=True)
    if not design.chambers:
        return
    result = geosim.solve(
        robot,
        geosim.Inflation(volume_ratio=[[1.2] * robot.chambers]),
        solver=geosim.EnergyShapeSolver(element="p1"),
        throw=False,
    )
    assert result.converged, result.message


def test_a_preview_keeps_surfaces_that_are_coarser_than_its_mesh():
    """Merging facets of a cylinder that the mesh has to split again cost twice as many tets, and its volume."""
    design = generate.round_finger()
    robot = design.robot(preview=True)
    assert len(robot.body_tets) < 9000  # measured 5.8k, and 13.2k with merged facets
    assert robot.chamber_volumes[0] == pytest.approx(design.chambers[0].volume, rel=1e-9)
