"""Hollow bodies get chambers, and tets that occupy the same place are refused."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from geosim import VolumetricRobot
from geosim.errors import InputError
from geosim.geometry.build import check_tets
from geosim.geometry.mesh import mesh_surfaces
from geosim.geometry.surface import check_surface

BODY = trimesh.creation.box((0.06, 0.02, 0.02))
CAVITIES = [trimesh.creation.box((0.016, 0.01, 0.01)).apply_translation([x, 0, 0]) for x in (0.015, -0.015)]
GIVEN = dict(material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.0299)


def hollow():
    """A box that contains two cavities as inner shells."""
    inner = [cavity.copy() for cavity in CAVITIES]
    for cavity in inner:
        cavity.invert()
    return trimesh.util.concatenate([BODY, *inner])


@pytest.fixture(scope="module")
def tets():
    mesh = mesh_surfaces([check_surface(hollow())], max_edge=0.01)
    return np.array(mesh.vertices), np.array(mesh.tets)


def test_inner_shells_of_a_body_become_chambers_in_the_order_of_their_places():
    robot = VolumetricRobot.from_surfaces(hollow(), "cavities", max_edge=0.01, **GIVEN)
    assert robot.chamber_volumes == pytest.approx([1.6e-6, 1.6e-6], rel=1e-9)
    middles = [robot.vertices[wall].mean(axis=(0, 1))[0] for wall in robot.chamber_walls]
    assert middles[0] < 0 < middles[1]
    with pytest.raises(InputError, match="encloses no cavity"):
        VolumetricRobot.from_surfaces(BODY, "cavities", max_edge=0.01, **GIVEN)


@pytest.mark.parametrize(
    ("scale", "units", "meant"), [(60 / 25.4, "mm", '"in"'), (60.0, "in", '"mm"'), (60.0, "mm", "")]
)
def test_a_size_that_is_rarely_meant_is_named_with_the_unit_that_may_be(scale, units, meant):
    """A box of 60 mm in inches that is read in millimetres is 2 mm, and the other way round 1.5 m: neither is refused."""
    box = trimesh.creation.box((1.0, 1 / 3, 1 / 3)).apply_scale(scale)
    given = dict(GIVEN, fixed=lambda x: x[:, 0] < 0.99 * x[:, 0].min())
    edge = 0.3 * scale * {"mm": 1e-3, "in": 25.4e-3}[units]
    said = VolumetricRobot.from_surfaces(box, units=units, max_edge=edge, **given).notices
    assert [n.endswith(f"write units = {meant}") for n in said] == [True] * bool(meant)


def test_cavities_of_a_hollow_tet_mesh_become_chambers_and_the_numbering_is_kept(tets):
    vertices, body = tets
    robot = VolumetricRobot.from_tets(vertices, body, chambers="cavities", **GIVEN)
    assert np.array_equal(robot.vertices[: len(vertices)], vertices)
    assert np.array_equal(robot.body_tets, body)
    assert robot.chamber_volumes == pytest.approx([1.6e-6, 1.6e-6], rel=1e-9)
    assert sum("cavity of 1600 mm^3" in notice for notice in robot.notices) == 2
    assert VolumetricRobot.from_tets(vertices, body, **GIVEN).chambers == 0
    with pytest.raises(InputError, match="are chambers already"):
        VolumetricRobot.from_tets(robot.vertices, robot.tets, robot.regions, chambers="cavities", **GIVEN)
    with pytest.raises(InputError, match="chambers"):
        VolumetricRobot.from_tets(vertices, body, chambers="holes", **GIVEN)


def test_cavities_are_those_of_all_bodies_together(tets):
    vertices, body = tets
    regions = np.where(vertices[body].mean(axis=1)[:, 2] > 0, 5, 2)  # the halves each enclose nothing
    robot = VolumetricRobot.from_tets(
        vertices,
        body,
        regions,
        material={2: "ecoflex-00-30-fang2022", 5: "ecoflex-00-30-fang2022"},
        fixed=GIVEN["fixed"],
        chambers="cavities",
    )
    assert robot.chamber_regions == (6, 7)
    assert robot.chamber_volumes == pytest.approx([1.6e-6, 1.6e-6], rel=1e-9)


def test_double_and_overlapping_tets_are_refused(tets):
    vertices, body = tets
    check_tets(vertices, body)
    with pytest.raises(InputError, match="1 are there twice"):
        check_tets(vertices, np.vstack([body, body[7][[1, 0, 2, 3]]]))
    apex = vertices[body[0]].mean(axis=0)
    more = np.vstack([vertices, apex])
    with pytest.raises(InputError, match=r"overlapping, .* one side"):
        check_tets(more, np.vstack([body, [*body[0, :3], len(vertices)]]))
    shifted = np.vstack([vertices, vertices + [0.001, 0.002, 0.003]])
    with pytest.raises(InputError, match=r"overlapping, .* inside tets"):
        VolumetricRobot.from_tets(shifted, np.vstack([body, body + len(vertices)]), **GIVEN)
    apart = np.vstack([vertices, vertices + [0.06, 0.0, 0.0]])  # they touch
    check_tets(apart, np.vstack([body, body + len(vertices)]))


def _inward(box):
    box = box.copy()
    box.invert()
    return box


def test_an_island_in_a_cavity_and_a_body_given_twice_are_called_so():
    cavity, island = trimesh.creation.box((0.04, 0.01, 0.01)), trimesh.creation.box((0.005, 0.004, 0.004))
    floating = trimesh.util.concatenate([BODY, _inward(cavity), island])
    for chambers in ("cavities", [cavity]):
        with pytest.raises(InputError, match=r"a solid island of 80 mm\^3 near .* floats in chamber 1"):
            VolumetricRobot.from_surfaces(floating, chambers, max_edge=0.02, **GIVEN)
    with pytest.raises(InputError, match="body 1 surface: is the same surface as body 0 surface; give each body once"):
        VolumetricRobot.from_surfaces([BODY, BODY.copy()], **{**GIVEN, "material": ["ecoflex-00-30-fang2022"] * 2})
    with pytest.raises(InputError, match="chamber 2 surface: is the same surface as chamber 1"):
        VolumetricRobot.from_surfaces(BODY, [CAVITIES[0], CAVITIES[0].copy()], **GIVEN)
    # what another body fills is no island: a core in a sleeve in a shell of the core's material
    sleeve = trimesh.util.concatenate([cavity, _inward(island)])
    robot = VolumetricRobot.from_surfaces(
        [floating, sleeve], max_edge=0.02, **{**GIVEN, "material": ["ecoflex-00-30-fang2022"] * 2}
    )
    assert robot.chambers == 0


def test_a_body_one_unit_high_is_asked_for_its_unit_first():
    """Before its crossings, and before it is meshed; so small a robot is taken when it is said to be."""
    unit = trimesh.creation.box((1.0, 0.3, 0.3))
    crossing = trimesh.util.concatenate([unit, unit.copy().apply_translation([0.1, 0.1, 0.1])])
    for body in (unit, crossing):
        with pytest.raises(
            InputError, match=r"measures 1 x .* mm with units = 'mm'|measures 1\.1 x .* with units = 'mm'"
        ):
            VolumetricRobot.from_surfaces(body, units="mm", **GIVEN)
    robot = VolumetricRobot.from_surfaces(
        unit, units="mm", max_edge=1e-3, allow_any_size=True, material="rtv615", fixed=lambda x: x[:, 0] < 0
    )
    assert robot.size < 2e-3


def with_bore():
    """A cavity of 40 x 10 x 10 mm with a bore of 4 x 4 mm that runs out through the end that is held."""
    cavity = trimesh.creation.box((0.04, 0.01, 0.01))
    bore = trimesh.creation.box((0.03, 0.004, 0.004)).apply_translation([-0.025, 0, 0])
    return trimesh.boolean.union([cavity, bore])


def test_an_inlet_is_closed_by_a_wall_as_thick_as_the_others():
    """Walls are 5 mm above, below and at the sides: so is the cap, and 5 mm of bore remain."""
    with pytest.raises(InputError, match="crosses or touches the skin"):
        VolumetricRobot.from_surfaces(BODY, [with_bore()], max_edge=0.01, **GIVEN)
    robot = VolumetricRobot.from_surfaces(BODY, [with_bore()], max_edge=0.01, inlet="close", **GIVEN)
    assert robot.chamber_volumes == pytest.approx([0.04 * 0.01**2 + 0.005 * 0.004**2], rel=1e-6)
    said = [n for n in robot.notices if "is closed by a wall of 5 mm" in n]
    assert len(said) == 1
    assert "5.66 mm wide near (-30, 0, 0) mm" in said[0].replace("-0,", "0,").replace("-0)", "0)")
    with pytest.raises(InputError, match="inlet = 'open' is unknown"):
        VolumetricRobot.from_surfaces(BODY, [with_bore()], inlet="open", **GIVEN)


def test_a_chamber_inside_is_left_as_it_is_where_inlets_are_closed():
    robot = VolumetricRobot.from_surfaces(BODY, CAVITIES, max_edge=0.01, inlet="close", **GIVEN)
    assert robot.chamber_volumes == pytest.approx([1.6e-6, 1.6e-6], rel=1e-9)
    assert not any("inlet" in notice for notice in robot.notices)


def test_inner_shells_that_chambers_do_not_fit_are_named():
    """Chambers that lie beside the shells that they are meant to be."""
    off = [c.copy().apply_translation([0.003, 0, 0]) for c in CAVITIES]
    with pytest.raises(InputError, match='give chambers = "cavities": the body holds 2 inner shells'):
        VolumetricRobot.from_surfaces(hollow(), off, max_edge=0.01, **GIVEN)
