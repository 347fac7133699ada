"""Remeshing before tetrahedra: distances, volumes, flat faces and seams; bores; the worst tets; what stays as it is."""

import numpy as np
import pytest
import trimesh
from shapes import block as cells

from geosim import InputError, VolumetricRobot
from geosim.geometry import shells, topology
from geosim.geometry.bores import bores, plugged
from geosim.geometry.child import Allowance
from geosim.geometry.domain import build_domain
from geosim.geometry.envelope import tets_in_envelope
from geosim.geometry.forecast import foretold_tets
from geosim.geometry.intersections import farthest_from
from geosim.geometry.polish import polished, radius_ratios
from geosim.geometry.quality import mesh_quality, through_thinnest_wall
from geosim.geometry.remedies import mesh_remeshed
from geosim.geometry.remesh import remeshed
from geosim.geometry.surface import check_surface

GIVEN = dict(material="ecoflex-00-30", fixed=lambda x: x[:, 0] < 1e-6)
SIZE, LOW, HIGH = (0.05, 0.02, 0.012), np.array([0.006, 0.004, 0.003]), np.array([0.044, 0.016, 0.009])
RADIUS = 1e-3


def rounded(low=LOW, high=HIGH, radius=RADIUS, steps=6):
    """A box with round edges as CAD programs cut it: strips as long as the box and a fraction of the radius wide."""
    turn = np.linspace(0.0, 0.5 * np.pi, steps + 1)
    octant = np.array([(np.cos(a) * np.cos(b), np.sin(a) * np.cos(b), np.sin(b)) for a in turn for b in turn])
    signs = np.array([(i, j, k) for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    middle, half = 0.5 * (low + high), 0.5 * (high - low) - radius
    points = np.vstack([middle + s * (half + radius * octant) for s in signs])
    return trimesh.convex.convex_hull(np.unique(points.round(9), axis=0))


def block(size=SIZE, at=(0.0, 0.0, 0.0)):
    return trimesh.creation.box(size).apply_translation(0.5 * np.array(size) + at)


def apart(a, b):
    """Largest distance of corners, mid-edges and centres of triangles of one surface from another."""
    corners = a.triangles
    points = np.vstack(
        [corners.reshape(-1, 3), corners.mean(axis=1), 0.5 * (corners + corners[:, [1, 2, 0]]).reshape(-1, 3)]
    )
    return farthest_from(np.asarray(points), np.asarray(b.vertices), np.asarray(b.faces))[0]


def wall(robot, region=0):
    faces = robot.chamber_walls[region]
    return trimesh.Trimesh(robot.vertices, faces, process=False)


@pytest.fixture(scope="module")
def filleted():
    """A block with a chamber whose edges are round."""
    return VolumetricRobot.from_surfaces(block(), [rounded()], max_edge=5e-3, **GIVEN)


def test_a_filleted_chamber_gives_few_round_tets_near_where_it_was(filleted):
    """Strips of a quarter of a millimetre make no tets of that size; flat faces stay, the volume and the distance too."""
    robot = filleted
    assert any("surfaces remeshed from" in notice for notice in robot.notices)
    quality = mesh_quality(robot.vertices, robot.body_tets)
    assert quality.tets < 9000
    assert quality.radius_ratio_min > 0.066  # measured: 0.1
    assert robot.chamber_volumes[0] == pytest.approx(rounded().volume, rel=0.01)
    assert robot.body_volume == pytest.approx(np.prod(SIZE) - rounded().volume, rel=0.01)
    new = wall(robot)
    assert apart(new, rounded()) < 1.02 * 0.3e-3, "6 % of max_edge, at vertices too"
    assert apart(rounded(), new) < 1.2 * 0.3e-3, "between the points that are held"
    flat = np.abs(new.triangles_center[:, 2] - LOW[2]) < 0.3e-6
    whole = np.prod(HIGH[:2] - LOW[:2] - 2.0 * RADIUS)
    assert new.area_faces[flat].sum() > 0.85 * whole, "flat faces stay in their planes"


def test_a_smaller_distance_keeps_more_of_the_surface(filleted):
    fine = VolumetricRobot.from_surfaces(block(), [rounded()], max_edge=5e-3, remesh={"distance": 4e-5}, **GIVEN)
    assert apart(rounded(), wall(fine)) < 1.2 * 4e-5 < apart(rounded(), wall(filleted))


def test_a_surface_far_finer_than_asked_keeps_within_the_distance():
    """Of triangles of 0.02 mm only the corners are held against the new surface; that is enough."""
    fine = rounded(radius=0.3e-3, steps=24)
    assert len(fine.faces) > 9000
    robot = VolumetricRobot.from_surfaces(block(), [fine], max_edge=5e-3, **GIVEN)
    quality = mesh_quality(robot.vertices, robot.body_tets)
    assert quality.tets < 11_300  # measured: 7537
    assert quality.radius_ratio_min > 0.066  # measured: 0.1
    assert robot.chamber_volumes[0] == pytest.approx(fine.volume, rel=0.01)
    assert apart(wall(robot), fine) < 1.2 * 0.3e-3
    assert apart(fine, wall(robot)) < 1.2 * 0.3e-3


def test_a_fillet_smaller_than_the_distance_becomes_the_edge():
    """A fillet of 0.3 mm is 0.12 mm from the edge that it rounds; within 0.3 mm no strip of it may stay in the mesh."""
    fine = VolumetricRobot.from_surfaces(block(), [rounded(radius=0.3e-3, steps=12)], max_edge=5e-3, **GIVEN)
    sharp = VolumetricRobot.from_surfaces(block(), [block(HIGH - LOW, LOW)], max_edge=5e-3, **GIVEN)
    assert len(fine.body_tets) < 1.5 * len(sharp.body_tets)  # measured: 1.1
    assert mesh_quality(fine.vertices, fine.body_tets).radius_ratio_min > 0.06


def test_no_pass_begins_when_the_time_is_spent():
    """What was not remeshed keeps its triangles; with time they become few."""
    surface = rounded()
    given = (
        np.asarray(surface.vertices),
        np.asarray(surface.faces, dtype=np.int64),
        np.zeros(len(surface.faces), dtype=np.int64),
    )
    assert remeshed(*given, 2.5e-3, 0.25e-3, until=0.0) is None
    made = remeshed(*given, 2.5e-3, 0.25e-3)
    assert made is not None
    assert len(made[1]) < 0.6 * len(surface.faces)


@pytest.mark.parametrize("given", [{"far": 1e-4}, 0.1, "yes", {"distance": -1.0}, {"distance": "wide"}])
def test_a_remesh_that_is_none_is_refused(given):
    with pytest.raises(InputError, match="remesh"):
        VolumetricRobot.from_surfaces(block(), remesh=given, max_edge=5e-3, **GIVEN)


def test_surfaces_as_coarse_as_asked_pass_through_bit_for_bit():
    fine = trimesh.Trimesh(*trimesh.remesh.subdivide_to_size(block().vertices, block().faces, 8e-3))
    for body in (block(), fine):
        one, other = (VolumetricRobot.from_surfaces(body, remesh=how, max_edge=5e-3, **GIVEN) for how in (True, False))
        assert np.array_equal(one.vertices, other.vertices)
        assert np.array_equal(one.tets, other.tets)


def test_bodies_that_share_a_wall_share_it_after_remeshing():
    low, high = block((0.05, 0.02, 0.004)), block((0.05, 0.02, 0.008), (0.0, 0.0, 0.004))
    hollow = rounded(np.array([0.006, 0.004, 0.006]), np.array([0.044, 0.016, 0.010]))
    robot = VolumetricRobot.from_surfaces(
        [low, high], [hollow], max_edge=5e-3, **{**GIVEN, "material": ["ecoflex-00-30", "dragon-skin-30"]}
    )
    assert any("surfaces remeshed" in notice for notice in robot.notices)
    first, second = (np.unique(robot.tets[robot.regions == r]) for r in robot.materials)
    seam = robot.vertices[np.intersect1d(first, second)]
    assert np.allclose(seam[:, 2], 0.004, atol=1e-9)
    assert np.allclose(np.ptp(seam, axis=0)[:2], (0.05, 0.02))


def test_tets_are_foretold():
    surfaces = [check_surface(block())], [check_surface(rounded(), name="chamber 1")]
    mesh = mesh_remeshed(*surfaces, max_edge=5e-3, allowed=Allowance.of(60.0))
    assert 0.6 < foretold_tets(build_domain(*surfaces), 5e-3) / len(mesh.tets) < 1.6  # measured: 1.0
    cube = [check_surface(block((0.03, 0.03, 0.03)))]
    mesh = mesh_remeshed(cube, max_edge=4e-3, allowed=Allowance.of(60.0))
    assert 0.6 < foretold_tets(build_domain(cube, []), 4e-3, stays=True) / len(mesh.tets) < 1.7  # measured: 1.1


def test_a_vertex_that_makes_flat_tets_moves_back_and_walls_stay_flat():
    """The middle vertex of eight cubes nearly on the face of one, and one on a face of the whole beside an edge."""
    grid = np.indices((3, 3, 3)).reshape(3, -1).T.astype(float)
    cells = np.indices((2, 2, 2)).reshape(3, -1).T
    corner = np.array([(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    six = np.array([[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]])
    ids = (cells[:, None] + corner[None]) @ np.array([9, 3, 1])
    tets = np.ascontiguousarray(topology.oriented(grid, ids[:, six].reshape(-1, 4))[0])
    grid[13], grid[12] = (1.0, 1.0, 1.96), (1.0, 1.96, 0.0)
    assert topology.tet_volumes(grid, tets).min() > 0.0
    assert radius_ratios(grid, tets).min() == pytest.approx(mesh_quality(grid, tets).radius_ratio_min, rel=1e-9)
    assert radius_ratios(grid, tets).min() < 0.05
    x, found, _ = polished(grid, tets, np.zeros(len(tets), dtype=np.int64), (0,))
    assert radius_ratios(x, found).min() > 0.1
    assert topology.tet_volumes(x, found).sum() == pytest.approx(8.0, rel=1e-12), "the walls are those of the cube"
    moved = np.flatnonzero((x != grid).any(axis=1))
    assert not set(moved) & {0, 2, 6, 8, 18, 20, 24, 26}, "no corner moves"


def grooved(sections=64, count=4, radius=5e-3, minor=0.5e-3):
    """A rod with round grooves."""
    turn = np.linspace(np.pi, 0.0, 9)
    places = 2.0 * minor + 4.0 * minor * np.arange(count)
    bends = [(radius - minor * np.sin(t), z + minor * np.cos(t)) for z in places for t in turn]
    return trimesh.creation.revolve(
        np.array([(0, 0), (radius, 0), *bends, (radius, 9e-3), (0, 9e-3)]), sections=sections
    )


def test_flat_tets_on_bent_walls_become_round_and_the_walls_stay_near():
    """Between walls that turn by 10 to 20 degrees, vertices slide along both: the ratio was 0.048 without."""
    given = dict(material="ecoflex-00-30", fixed=lambda x: x[:, 2] < 1e-6, max_edge=5e-3)
    robot = VolumetricRobot.from_surfaces(grooved(), **given)
    assert mesh_quality(robot.vertices, robot.body_tets).radius_ratio_min > 0.066  # measured: 0.1
    skin = trimesh.Trimesh(robot.vertices, robot.skin, process=False)
    assert apart(skin, grooved()) < 1.5 * 0.5e-3  # twice 5 % of max_edge: so few tets took twice the distance
    assert robot.body_volume == pytest.approx(grooved().volume, rel=0.01)


def test_four_points_of_a_rectangle_are_a_flat_tet():
    """As their circumscribed circle divides zero by zero."""
    low, high = (-0.01678838, -0.03425801), (-0.01833061, -0.03174955)
    x = np.array([(*low, -0.01383333), (*high, -0.01383333), (*low, -0.01533333), (*high, -0.01533333)])
    turns = np.array([(0, 1, 2, 3), (0, 1, 3, 2), (1, 0, 2, 3)])
    assert np.abs(radius_ratios(x, turns)).max() < 1e-6


def test_round_parts_keep_their_volume():
    """Chords of a ball lie inside of it: vertices have to lie outside."""
    ball = trimesh.creation.icosphere(5, 0.01)
    robot = VolumetricRobot.from_surfaces(ball, max_edge=4e-3, **{**GIVEN, "fixed": lambda x: x[:, 0] < -0.008})
    assert any("surfaces remeshed" in notice for notice in robot.notices)
    assert robot.body_volume == pytest.approx(ball.volume, rel=1.5e-3)  # measured: 6e-4


def cusped():
    """A block with a rod on it that touches it along a line: two cusps, as fillets leave them where they run out."""
    rod = trimesh.creation.cylinder(2e-3, 0.04, sections=256)
    rod.apply_transform(trimesh.geometry.align_vectors((0, 0, 1), (1, 0, 0)))
    return trimesh.boolean.union([block(), rod.apply_translation((0.025, 0.01, 0.0139999))])


@pytest.mark.slow
def test_cusps_that_no_triangles_fit_are_meshed_from_an_envelope():
    """Of one half, which is mirrored: no face of the skin lies in the plane."""
    pytest.importorskip("pytetwild")
    robot = VolumetricRobot.from_surfaces(cusped(), max_edge=5e-3, symmetry="y", **GIVEN)
    said = [notice for notice in robot.notices if "remeshed" in notice]
    assert len(said) == 1
    assert "an envelope of" in said[0]
    assert robot.body_volume == pytest.approx(cusped().volume, rel=1e-3)  # measured, 30 runs: 3e-4 to 6e-4
    # measured, 60 runs: 0.06 to 0.33; below 0.05 another envelope is drawn
    assert mesh_quality(robot.vertices, robot.body_tets).radius_ratio_min > 0.03
    # measured, 11 draws: 10,800 to 16,600; without the envelope the mesher is stopped at 72,940
    assert len(robot.tets) < 19_000
    skin = robot.vertices[robot.skin]
    assert (np.abs(skin[:, :, 1] - 0.01).max(axis=1) > 1e-6).all()  # slanted faces may touch the plane with a corner


def test_walls_of_an_envelope_lie_in_the_planes_of_the_surface(monkeypatch):
    """Tets whose walls are a little off the faces of a box, as fTetWild makes them."""
    x, tets = cells(SIZE, (10, 4, 3))
    off = x + np.random.default_rng(0).uniform(-4e-5, 4e-5, x.shape)
    monkeypatch.setattr("geosim.geometry.envelope.run_mesher", lambda *_: {"vertices": off, "tets": tets})
    found = tets_in_envelope([check_surface(block())], [], 1e-4, 5e-3, Allowance.of(60.0))[0]
    for axis, size in enumerate(SIZE):
        for plane in (0.0, size):
            on = np.abs(x[:, axis] - plane) < 1e-9
            assert np.abs(found[on, axis] - plane).max() < 1e-9 < np.abs(off[on, axis] - plane).max()


def test_where_an_envelope_touches_itself_one_piece_is_filled(monkeypatch):
    """Two blocks that meet in an edge of three tets' length: of both spaces beside it one gets a tet at each of them."""
    x, tets = cells((0.04, 0.04, 0.03), (4, 4, 3))
    monkeypatch.setattr("geosim.geometry.envelope.run_mesher", lambda *_: {"vertices": x, "tets": tets})
    size, gap = (0.02 - 1e-6, 0.02 - 1e-6, 0.03), 0.02 + 1e-6
    two = check_surface(trimesh.util.concatenate([block(size), block(size, (gap, gap, 0.0))]))
    found = tets_in_envelope([two], [], 1e-4, 1e-2, Allowance.of(60.0))[1]
    assert shells.edge_counts(topology.boundary_faces(found)).max() == 2
    assert len(found) == 2 * 2 * 2 * 3 * 6 + 3


def test_what_no_remedy_meshes_is_refused_in_one_line_with_its_narrowest_place(monkeypatch):
    monkeypatch.setattr("geosim.geometry.mesh.run_mesher", lambda *_: "tetgen failed")
    monkeypatch.setattr("geosim.geometry.remedies.is_available", lambda: False)
    with pytest.raises(
        InputError, match=r"no remedy gives a mesh .* wall or gap is 3 mm wide near \(.*\) mm; widen"
    ) as raised:
        VolumetricRobot.from_surfaces(block(), [rounded()], max_edge=5e-3, **GIVEN)
    assert "\n" not in str(raised.value)


def test_walls_that_ask_for_millions_of_tets_are_refused_before_meshing(monkeypatch):
    """A wall of 2 micrometres round a chamber; no mesher is started."""
    monkeypatch.setattr("geosim.geometry.mesh.run_mesher", lambda *_: pytest.fail("a mesher was started"))
    with pytest.raises(
        InputError, match=r"million tets.* wall or gap is 0\.002 mm wide near \(.*\) mm; widen or remove"
    ):
        VolumetricRobot.from_surfaces(
            block(), [block((0.044, 0.016, 0.011996), (0.003, 0.002, 2e-6))], max_edge=5e-3, **GIVEN
        )


def bored(radius=1e-3, place=0.0):
    inner, bore = (
        block((0.038, 0.012, 0.006), (0.006, 0.004, 0.003)),
        trimesh.creation.cylinder(radius, 0.02, sections=32),
    )
    bore.apply_transform(trimesh.geometry.align_vectors((0, 0, 1), (1, 0, 0))).apply_translation(
        (0.05, 0.01 + place, 0.006)
    )
    return trimesh.boolean.difference([block(), inner, bore])


def test_a_bore_is_found_by_its_place_width_and_axis():
    found = bores(check_surface(bored(place=1e-3)))
    assert len(found) == 1
    assert np.allclose(found[0].mouth, (0.05, 0.011, 0.006), atol=1e-4)
    assert np.allclose(found[0].axis, (1.0, 0.0, 0.0), atol=1e-2)
    assert found[0].radius == pytest.approx(1e-3, rel=0.02)
    assert bores(check_surface(block())) == []


def test_an_open_cavity_is_refused_with_its_bore_and_closed_where_asked(monkeypatch):
    monkeypatch.setattr("geosim.geometry.bores.GRID_CELLS", 100)  # the finer grid: the test above
    given = dict(max_edge=5e-3, **GIVEN)
    with pytest.raises(InputError, match=r'open through a bore 2 mm wide near \(50, 10, 6\) mm .*inlet = "close"'):
        VolumetricRobot.from_surfaces(bored(), "cavities", **given)
    skin = VolumetricRobot.from_surfaces(bored(), "cavities", inlet="close", **given)
    deep = VolumetricRobot.from_surfaces(bored(), "cavities", inlet="close", inlet_depth=3e-3, **given)
    cavity, section = 0.038 * 0.012 * 0.006, np.pi * 1e-6
    assert skin.chamber_volumes[0] == pytest.approx(cavity + 5e-3 * section, rel=0.01)
    assert skin.chamber_volumes[0] - deep.chamber_volumes[0] == pytest.approx(3e-3 * section, rel=0.25)
    assert any("closed at the skin" in notice for notice in skin.notices)
    with pytest.raises(InputError, match="smaller inlet_depth"):
        VolumetricRobot.from_surfaces(bored(), "cavities", inlet="close", inlet_depth=9e-3, **given)


def test_a_plug_is_flush_with_a_flat_skin_and_leaves_no_thin_step_in_a_bent_one(monkeypatch):
    monkeypatch.setattr("geosim.geometry.bores.GRID_CELLS", 100)
    flush = plugged(check_surface(bored()), 0.0)
    high = flush.vertices[flush.vertices[:, 0] > 0.0495, 0]
    assert np.allclose(high, 0.05, atol=1e-9)
    rod = trimesh.creation.cylinder(0.006, 0.03, sections=48)
    tools = trimesh.creation.cylinder(0.003, 0.02, sections=24), trimesh.creation.cylinder(0.001, 0.02, sections=24)
    tools[1].apply_transform(trimesh.geometry.align_vectors((0, 0, 1), (1, 0, 0))).apply_translation((0.01, 0.0, 0.0))
    bent = plugged(check_surface(trimesh.boolean.difference([rod, *tools])), 0.0)
    sides = bent.vertices[bent.faces] - bent.vertices[np.roll(bent.faces, 1, axis=1)]
    assert np.linalg.norm(sides, axis=2).min() > 7.5e-5  # measured: 0.11 mm; a step of 0.02 mm was left


def test_elements_through_the_thinnest_wall_are_counted():
    robot = VolumetricRobot.from_surfaces(
        block(), [block((0.038, 0.012, 0.006), (0.006, 0.004, 0.003))], max_edge=5e-3, **GIVEN
    )
    count, thickness, _ = through_thinnest_wall(robot.vertices, robot.body_tets)
    assert thickness == pytest.approx(3e-3, rel=1e-6)
    assert 1 <= count <= 6


@pytest.mark.parametrize("edge", [6.0, 0.6])
def test_an_edge_of_many_bodies_is_refused_with_both_lengths(edge):
    """As of millimetres for metres: whatever mesh there is has none of its shape."""
    with pytest.raises(
        InputError, match=rf"max_edge = {edge * 1e3:.4g} mm: .* is [\d.]+ mm from corner to corner; .*in metres"
    ):
        VolumetricRobot.from_surfaces(block(), max_edge=edge, **GIVEN)


@pytest.mark.parametrize("edge", [-1e-3, 0.0, float("nan"), "6mm"])
def test_an_edge_that_is_no_length_is_refused_by_its_name(edge):
    with pytest.raises(InputError, match=r"max_edge \[m\] = .* must be a positive number"):
        VolumetricRobot.from_surfaces(block(), max_edge=edge, **GIVEN)


def test_an_edge_over_half_of_the_width_is_shortened_and_said_to_be():
    robot = VolumetricRobot.from_surfaces(block(), [rounded()], max_edge=60e-3, **GIVEN)
    assert any("is over half of the width of 20 mm; 10 mm is taken" in notice for notice in robot.notices)
    assert mesh_quality(robot.vertices, robot.body_tets).radius_ratio_min > 0.05
