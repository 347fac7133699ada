"""Rescue repairs what the check refuses, says how much it changed, and leaves a sound surface alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
import trimesh

import geosim.geometry.mesh as mesher
from geosim import VolumetricRobot
from geosim.errors import InputError, MeshError
from geosim.geometry import build, envelope, shells, topology
from geosim.geometry.child import Allowance
from geosim.geometry.envelope import MAX_ENVELOPE_REL, UndecidedError, envelope_width, enveloped, least_wall
from geosim.geometry.intersections import deviation
from geosim.geometry.mesh import MesherError
from geosim.geometry.quality import mesh_quality
from geosim.geometry.rescue import rescued
from geosim.geometry.surface import Surface, check_surface, read_surface
from geosim.geometry.winding import soup, winding


def block(size=(0.06, 0.016, 0.016), at=(0.0, 0.0, 0.0), edge=0.004):
    """A box round a point [m], its triangles of an edge [m]."""
    mesh = trimesh.creation.box(size)
    mesh = trimesh.Trimesh(*trimesh.remesh.subdivide_to_size(mesh.vertices, mesh.faces, edge))
    return mesh.apply_translation(at)


def raw(vertices, faces):
    return Surface(np.asarray(vertices, float), np.asarray(faces, int))


def joined(*meshes):
    starts = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    return raw(np.vstack([m.vertices for m in meshes]), np.vstack([m.faces + s for m, s in zip(meshes, starts)]))


def holes():
    mesh = block()
    return raw(mesh.vertices, np.delete(mesh.faces, [3, 40, 77], axis=0))


def stray():
    flap = raw([[0, 0, 0.009], [0.002, 0, 0.0095], [0, 0.002, 0.0092]], [[0, 1, 2]])
    return joined(block(), flap)


def fin():
    mesh = block()
    a, b = mesh.edges_unique[0]
    return raw(
        np.vstack([mesh.vertices, 1.1 * mesh.vertices[[a, b]].mean(axis=0)]),
        np.vstack([mesh.faces, [a, b, len(mesh.vertices)]]),
    )


def gap():
    mesh = block()
    right = mesh.triangles_center[:, 0] > 0
    halves = [raw(mesh.vertices + [shift, 0, 0], mesh.faces[part]) for part, shift in ((right, 5e-6), (~right, 0.0))]
    return joined(*halves)


def crossing(edge):
    """Two vertices of the skin pulled over each other."""
    mesh = block(edge=edge)
    points = mesh.vertices.copy()
    for x in (-edge, edge):
        points[np.argmin(np.linalg.norm(mesh.vertices - [x, 0, 0.008], axis=1))] += [-2.0 * x, 0.0001, 0.0004]
    return raw(points, mesh.faces)


def both_senses():
    mesh = block()
    return raw(mesh.vertices, np.vstack([mesh.faces, mesh.faces[5:90:9, ::-1]]))


WHOLE = 0.06 * 0.016 * 0.016
FAULTS = {
    "holes": (holes, WHOLE, "3 holes closed", "open"),
    "stray": (stray, WHOLE, "1 stray triangles", "open"),
    "fin": (fin, WHOLE, "1 stray triangles", "open"),
    "gap": (gap, WHOLE, "open edges joined", "open"),
    "both senses": (both_senses, WHOLE, "10 triangles that were there in both senses kept once", "open"),
    "overlap": (
        lambda: joined(block((0.04, 0.016, 0.016), (-0.01, 0, 0)), block((0.03, 0.012, 0.012), (0.015, 0, 0))),
        0.04 * 0.016**2 + 0.02 * 0.012**2,
        "2 shells united",
        "self-intersecting",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_repaired_to_the_volume_of_the_solid(name):
    """The volume is known; without rescue the check refuses and says why."""
    make, volume, said, refused = FAULTS[name]
    surface = read_surface(make())
    with pytest.raises(InputError, match=refused):
        check_surface(surface)
    mended = check_surface(rescued(surface))
    assert mended.volume == pytest.approx(volume, rel=2e-3)
    assert any(said in notice for notice in mended.notices)
    within = float(re.search(r"within ([\d.e-]+) mm of the old", mended.notices[0]).group(1))
    assert within == pytest.approx(deviation(mended, surface, both=False)[0] * 1e3, rel=0.05, abs=1e-9)


def test_a_sound_surface_is_left_alone():
    mesh = block()
    surface = read_surface(mesh)
    assert rescued(surface) is surface


def test_an_opening_is_no_hole_and_rims_are_not_capped_across_each_other():
    mesh = block()
    end = mesh.triangles_center[:, 0] > 0.03 - 1e-9
    with pytest.raises(InputError, match=r"a hole 22.6 mm across .* too large .* cap it"):
        rescued(raw(mesh.vertices, mesh.faces[~end]))
    tube = trimesh.creation.annulus(0.002, 0.003, 0.06, sections=24)
    ends = np.abs(tube.triangles_center[:, 2]) > 0.03 - 1e-9
    with pytest.raises(InputError, match="join its rim"):
        rescued(raw(tube.vertices, tube.faces[~ends]))


def test_an_inner_wall_goes_and_both_sides_become_one_solid():
    x = np.linspace(-0.03, 0.03, 3)
    points = np.array([(a, b, c) for a in x for b in (-0.008, 0.008) for c in (-0.008, 0.008)])
    sides = [
        (4 * i + a, 4 * (i + 1) + a, 4 * (i + 1) + b, 4 * i + b)
        for i in (0, 1)
        for a, b in ((0, 1), (1, 3), (3, 2), (2, 0))
    ]
    caps = [(4 * i, 4 * i + 1, 4 * i + 3, 4 * i + 2) for i in range(3)]
    quads = np.array(sides + caps)
    mended = check_surface(rescued(raw(points, np.vstack([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]))))
    assert mended.volume == pytest.approx(WHOLE)
    assert len(mended.faces) == 20


def test_simplified_surfaces_stay_within_the_distance_and_keep_their_cavities():
    ball = trimesh.creation.icosphere(4, 0.02)
    hole = trimesh.creation.icosphere(3, 0.01)
    hole.invert()
    body = joined(ball, hole)
    given = dict(material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.019, max_edge=0.02)
    robot = VolumetricRobot.from_surfaces(trimesh.Trimesh(body.vertices, body.faces), simplify=6e-4, **given)
    skin = trimesh.Trimesh(robot.vertices, topology.boundary_faces(robot.tets), process=False)
    assert len(skin.faces) < len(body.faces) / 4
    assert deviation(body, skin)[0] <= 6e-4
    assert robot.body_volume == pytest.approx(body.volume, rel=0.01)
    assert len(skin.split()) == 2
    assert any(f"remeshed from {len(body.faces)}" in notice for notice in robot.notices)
    with pytest.raises(InputError, match=r"simplify \[m\] = -0.1"):
        VolumetricRobot.from_surfaces(trimesh.Trimesh(body.vertices, body.faces), simplify=-0.1, **given)


def test_a_robot_with_holes_is_built_with_rescue_and_says_so():
    given = dict(material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.029, max_edge=0.01)
    body = trimesh.Trimesh(holes().vertices, holes().faces, process=False)
    with pytest.raises(InputError, match=r"open, .* or let rescue=True .* repair it"):
        VolumetricRobot.from_surfaces(body, **given)
    robot = VolumetricRobot.from_surfaces(body, rescue=True, **given)
    assert robot.body_volume == pytest.approx(WHOLE, rel=1e-6)
    assert any("rescued: 3 holes closed" in notice for notice in robot.notices)


def test_slits_at_foreign_vertices_are_closed_without_a_change_of_volume():
    """One side is cut finer than its neighbours: vertices stand on the edges of others."""
    coarse, fine = trimesh.creation.box([0.06, 0.016, 0.016]), block(edge=0.008)
    parts = [m.triangles_center[:, 2] > 0.00799 for m in (coarse, fine)]
    body = joined(raw(coarse.vertices, coarse.faces[~parts[0]]), raw(fine.vertices, fine.faces[parts[1]]))
    mended = check_surface(rescued(body))
    assert mended.volume == pytest.approx(WHOLE, rel=1e-9)
    assert "4 holes closed" in mended.notices[0]


def hollow(at):
    """A body of 20 mm with a cavity of 8 mm, its triangles fine."""
    inner = block((0.008, 0.008, 0.008), at, edge=0.002)
    inner.invert()
    return trimesh.util.concatenate([block((0.02, 0.016, 0.016), at, edge=0.002), inner])


def test_several_bodies_have_their_cavities_and_may_be_simplified():
    given = dict(
        material=["ecoflex-00-30-fang2022", "dragon-skin-30"],
        fixed=lambda x: x[:, 0] < -0.0099,
        max_edge=0.01,
        simplify=1e-4,
    )
    bodies = [hollow((0, 0, 0)), hollow((0.02, 0, 0))]
    robot = VolumetricRobot.from_surfaces(bodies, "cavities", **given)
    assert robot.chamber_volumes == pytest.approx([0.008**3] * 2, rel=1e-6)
    assert robot.body_volume == pytest.approx(2 * (0.02 * 0.016**2 - 0.008**3), rel=1e-6)
    assert any("surfaces remeshed from" in notice for notice in robot.notices)


def test_a_cavity_that_another_body_fills_is_none(monkeypatch):
    monkeypatch.setattr("geosim.geometry.bores.GRID_CELLS", 40)  # there is no bore to be found
    given = dict(material=["ecoflex-00-30-fang2022"] * 2, fixed=lambda x: x[:, 0] < -0.0099, max_edge=0.01)
    with pytest.raises(InputError, match="encloses no cavity"):
        VolumetricRobot.from_surfaces([hollow((0, 0, 0)), block((0.008,) * 3)], "cavities", **given)
    with pytest.raises(InputError, match="fills a part of a cavity"):
        VolumetricRobot.from_surfaces([hollow((0, 0, 0)), block((0.004,) * 3)], "cavities", **given)


def test_walls_that_bodies_share_stay_shared_as_they_are_simplified():
    rod = trimesh.creation.cylinder(0.004, 0.03, sections=90)
    sleeve = trimesh.creation.annulus(0.004, 0.008, 0.03, sections=90)
    given = dict(material=["ecoflex-00-30-fang2022"] * 2, fixed=lambda x: x[:, 2] < -0.0149, max_edge=0.01)
    robot = VolumetricRobot.from_surfaces([rod, sleeve], simplify=1e-4, **given)
    assert robot.body_volume == pytest.approx(rod.volume + sleeve.volume, rel=0.02)
    outside = topology.boundary_faces(robot.tets)
    assert np.linalg.norm(robot.vertices[outside, :2].mean(axis=1), axis=1).max() < 0.0081
    parts = [topology.boundary_faces(robot.tets[robot.regions == region]) for region in robot.materials]
    assert len(np.vstack(parts)) > len(outside)


def crossed():
    """A body of overlapping blocks that a fold runs through, some triangles turned: no single repair mends it."""
    beam, folded = block((0.06, 0.016, 0.016), edge=0.02), crossing(0.008)
    both = joined(beam, trimesh.Trimesh(folded.vertices + [0.0, 0.008, 0.0], folded.faces, process=False))
    faces = both.faces.copy()
    faces[::7] = faces[::7, ::-1]
    return raw(both.vertices, faces)


@pytest.mark.slow
def test_what_no_repair_mends_is_cut_out_of_an_envelope():
    """Two blocks, one half over the other: three half widths; the chamber keeps its volume."""
    chamber = trimesh.creation.box((0.04, 0.006, 0.006))
    body = crossed()
    with pytest.raises(InputError):
        check_surface(rescued(body))
    robot = VolumetricRobot.from_surfaces(
        body, [chamber], material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.029, max_edge=0.01, rescue=True
    )
    assert robot.chamber_volumes == pytest.approx([0.04 * 0.006**2], rel=1e-3)
    assert robot.body_volume + robot.chamber_volumes[0] == pytest.approx(1.5 * WHOLE, rel=3e-3)
    ratio = mesh_quality(
        robot.vertices, robot.body_tets
    ).radius_ratio_min  # measured: 0.025 to 0.095; without polish 5e-6
    assert ratio > 1e-3 or any("flat tets" in notice for notice in robot.notices)
    assert any("rescued by an envelope" in notice for notice in robot.notices)


@pytest.mark.slow
def test_sound_surfaces_that_the_mesher_fails_on_are_cut_out_of_an_envelope_too(monkeypatch):
    attempt, tried = mesher.attempt, []

    def fails(engine, domain, *given):
        tried.append(len(domain.vertices))
        return (None, MesherError("broken")) if len(tried) == 1 else attempt(engine, domain, *given)

    monkeypatch.setattr(mesher, "attempt", fails)
    given = dict(material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.029, max_edge=0.01, remesh=False)
    body, chamber = trimesh.creation.box((0.06, 0.016, 0.016)), trimesh.creation.box((0.04, 0.006, 0.006))
    with pytest.raises(InputError, match="broken"):
        VolumetricRobot.from_surfaces(body, [chamber], **given)
    tried.clear()
    robot = VolumetricRobot.from_surfaces(body, [chamber], rescue=True, **given)
    assert robot.chamber_volumes == pytest.approx([0.04 * 0.006**2], rel=1e-3)
    assert any("rescued by an envelope" in notice for notice in robot.notices)


@pytest.mark.slow
def test_a_chamber_open_to_the_outside_is_refused_with_place_and_width():
    high = trimesh.creation.box((0.04, 0.006, 0.006)).apply_translation([0, 0, 0.008])
    with pytest.raises(InputError, match=r"open to the outside over [\d.]+ mm near \("):
        enveloped(
            [raw(block(edge=0.02).vertices, block(edge=0.02).faces)],
            [raw(high.vertices, high.faces)],
            6e-5,
            Allowance.of(60.0),
        )


@pytest.mark.parametrize(
    ("wall", "said"),
    [(2e-5, r"the wall to the outside is 0.02 mm thick"), (2e-3, r"open to .* through a wall 2 mm thick")],
)
def test_a_wall_that_an_envelope_cannot_decide_is_measured_from_the_chamber(wall, said):
    """Where the chamber meets the outside the mesh lies on the skin: no distance from there to the skin is a wall."""
    skin, tube = block(edge=0.02), block((0.04, 0.006, 0.006), (0.0, 0.0, 0.005 - wall), 0.02)
    surfaces = [raw(skin.vertices, skin.faces), raw(tube.vertices, tube.faces)]
    with pytest.raises(UndecidedError, match=said):
        envelope._refuse(surfaces, 1, -1, np.array([0.01, 0.0, 0.008]), 0.0, 6e-5)


def test_without_the_envelope_mesher_a_refusal_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(build, "is_available", lambda: False)
    given = dict(material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < 0)
    for rescue in (False, True):
        with pytest.raises(InputError, match=r"after pip install 'geosim\[rescue\]'"):
            VolumetricRobot.from_surfaces(crossed(), rescue=rescue, **given)


@pytest.mark.slow
def test_an_envelope_that_leaves_the_surface_is_refused_with_place_and_distance(monkeypatch):
    """Its mesh is moved by 0.2 mm along x."""
    made = envelope._mesh

    def moved(*given):
        vertices, tets = made(*given)
        return vertices + [2e-4, 0.0, 0.0], tets

    monkeypatch.setattr(envelope, "_mesh", moved)
    beam = trimesh.creation.box((0.06, 0.016, 0.016))
    with pytest.raises(
        InputError, match=r"near \(.*\) mm, where what would close it is 0\.[2-9]\d* mm from every triangle"
    ):
        enveloped([raw(beam.vertices, beam.faces)], [], 6e-5, Allowance.of(60.0))


def ruffled(sections=24):
    """A convolution so steep that it crosses both ends of the tube that it stands on, and a block through it [m]."""
    z = np.array([0.0, 2.7, -2.5, 16.5, 11.3, 14.0]) * 1e-3
    r = np.array([13.0, 11.0, 20.0, 20.0, 11.0, 13.0]) * 1e-3
    turn = np.exp(2j * np.pi * np.arange(sections) / sections)
    rings = np.stack([np.outer(r, turn.real), np.outer(r, turn.imag), np.outer(z, np.ones(sections))], axis=2)
    points = np.vstack([rings.reshape(-1, 3), [[0.0, 0.0, z[0]], [0.0, 0.0, z[-1]]]])
    first, last = np.arange(sections), np.roll(np.arange(sections), -1)
    faces = [np.column_stack([np.full(sections, len(points) - 2), last, first])]
    for ring in range(len(r) - 1):
        a, b, c, d = (
            first + ring * sections,
            last + ring * sections,
            first + (ring + 1) * sections,
            last + (ring + 1) * sections,
        )
        faces += [np.column_stack([a, b, d]), np.column_stack([a, d, c])]
    top = (len(r) - 1) * sections
    faces.append(np.column_stack([np.full(sections, len(points) - 1), first + top, last + top]))
    tilted = trimesh.creation.box([0.016, 0.04, 0.012], trimesh.transformations.rotation_matrix(0.3, [1.0, 2.0, 3.0]))
    return joined(raw(points, np.vstack(faces)), tilted.apply_translation([0.0, 0.0, 0.004]))


@pytest.mark.slow
def test_triangles_that_the_mesher_leaves_out_at_first_are_tried_again():
    """Of these some always are, where many cross, and each is a gap millimetres wide."""
    body = ruffled()
    eps = MAX_ENVELOPE_REL * body.diagonal
    made = enveloped([body], [], eps, Allowance.of(300.0))
    assert made.apart[0] <= eps
    assert made.bodies[0].volume == pytest.approx(made.volumes[0, 0], rel=1e-3)


def test_tets_of_an_envelope_without_volume_leave_no_slit(monkeypatch):
    """Two tets over, two below a square whose halves they cut along different diagonals: one flat tet lies between."""
    square = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]
    points = np.array([*square, [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]) * 0.01
    tets = np.array([[0, 1, 2, 4], [0, 2, 3, 4], [1, 0, 3, 5], [2, 1, 3, 5], [1, 0, 2, 3]])
    heap = soup(crossed().vertices, crossed().faces)
    for sense in (tets, tets[:, [0, 2, 1, 3]]):
        monkeypatch.setattr(envelope, "run_mesher", lambda *given, sense=sense: {"vertices": points, "tets": sense})
        vertices, found = envelope._mesh([heap], 2e-6, 3e-3, envelope.CLOSED, Allowance.of(60.0), "heap")
        skin = trimesh.Trimesh(vertices, topology.boundary_faces(found), process=False)
        assert len(skin.faces) == 8
        assert skin.volume == pytest.approx(4e-6 / 3.0, rel=1e-12)


def test_the_least_wall_of_a_heap_of_parts_decides_how_far_its_surfaces_may_move():
    """A chamber 0.5, 0.1 and 0.02 mm below the top of a beam that other parts cross, a third of the triangles inside out."""
    heap = joined(block(edge=0.02), block((0.02, 0.02, 0.012), (0.025, 0.0, 0.0)))
    faces = heap.faces.copy()
    faces[::3] = faces[::3, ::-1]
    body, diagonal = raw(heap.vertices, faces), heap.diagonal
    for wall, eps in ((0.5e-3, MAX_ENVELOPE_REL * diagonal), (0.1e-3, 0.2 * 0.1e-3), (0.02e-3, None)):
        tube = block((0.02, 0.004, 0.004), (-0.01, 0.0, 0.006 - wall), 0.002)
        chamber = raw(tube.vertices, tube.faces)
        thickness, at = least_wall([body], [chamber])
        assert wall / 1.5 < thickness < 1.5 * wall
        assert at[2] == pytest.approx(0.008 - wall, abs=1e-9)
        if eps is None:
            with pytest.raises(UndecidedError, match=r"the wall round it is 0\.02\d* mm thick near \("):
                envelope_width([body], [chamber])
        else:
            assert envelope_width([body], [chamber]) == pytest.approx(eps, rel=0.5)


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("springy_lgpl/Springy.stl", "6 pairs of triangles cross"),
        ("accordeon_lgpl/Accordeon_Surface.stl", "open, 4 edges"),
    ],
)
def test_public_surfaces_are_refused_by_the_name_of_their_fault(reference_data, body, refused):
    """What rescue makes of them is measured by benchmarks/surface_faults.py: fTetWild takes minutes and varies."""
    surface = read_surface(reference_data / "meshes" / body, units="mm")
    with pytest.raises(InputError, match=refused):
        check_surface(surface)


def test_a_rescue_ends_with_its_processor_time(monkeypatch):
    """A mesher that computes for ever is ended by the kernel, and what is wrong with the surface is said."""
    allowed, heap = Allowance.of(60.0, 1.2), crossed()
    with pytest.raises(MeshError, match=r"pytetwild needs more than the [\d.]+ s of processor time"):
        envelope._mesh([soup(heap.vertices, heap.faces)], 2e-6, 3e-3, envelope.CLOSED, allowed, "heap")
    assert allowed.seconds > 0.0
    monkeypatch.setattr(build, "REMEDIES_SECONDS", build.AFTER_ENVELOPE_CPU_SECONDS)
    with pytest.raises(
        InputError, match=r"self-intersecting, \d+ pairs of triangles cross, .* no envelope of up to 0\.06"
    ):
        VolumetricRobot.from_surfaces(
            crossed(), material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < 0, rescue=True
        )


def test_winding_numbers_of_far_triangles_are_those_of_near_ones():
    """Of torn and crossing triangles, summed as dipoles, within what decides at 1/2; of a closed ball 0 and 1."""
    heap, ball = crossed(), trimesh.creation.icosphere(3, 0.02)
    points = np.random.default_rng(0).uniform(-0.04, 0.04, (500, 3))
    for faces in (heap.faces, heap.faces[::2]):
        exact = shells.winding_numbers(points, heap.vertices, faces)
        np.testing.assert_allclose(winding(points, heap.vertices, faces), exact, atol=0.1)
    inside = np.linalg.norm(points, axis=1) < 0.02
    np.testing.assert_allclose(winding(points, ball.vertices, np.array(ball.faces)), inside, atol=0.1)


@pytest.mark.parametrize(("width", "sound"), [(1.5e-3, False), (8e-3, True)])
def test_a_repair_invents_no_chamber(monkeypatch, width, sound):
    """A void of 0.02 % of the body is no cavity unless it is given as a chamber; one of 3 % is."""
    monkeypatch.setattr(build, "is_available", lambda: False)  # no envelope: the repair alone
    void = block((width, width, width), edge=width)
    void.invert()
    outer_ = holes()
    body = trimesh.Trimesh(*(getattr(joined(outer_, void), k) for k in ("vertices", "faces")), process=False)
    given = dict(material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < -0.029, max_edge=6e-3, rescue=True)
    if sound:
        assert VolumetricRobot.from_surfaces(body, "cavities", **given).chambers == 1
        return
    with pytest.raises(InputError, match=r"encloses 3\.375 mm\^3 near .* fill this cavity in the CAD program"):
        VolumetricRobot.from_surfaces(body, "cavities", **given)
    void.invert()
    skin = trimesh.Trimesh(outer_.vertices, outer_.faces, process=False)
    assert VolumetricRobot.from_surfaces(skin, [void], **given).chambers == 1
