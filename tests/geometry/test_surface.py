"""Reading and checking surfaces: what is refused, what is repaired, and that the predicates know crossings."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import trimesh

from geosim import VolumetricRobot
from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.intersections import crossing_pairs, farthest_from
from geosim.geometry.surface import Surface, check_surface, read_surface


def box(size=(0.1, 0.02, 0.02), at=(0.0, 0.0, 0.0)):
    """A box with its lowest corner at a point [m]."""
    size, at = np.asarray(size, float), np.asarray(at, float)
    return trimesh.creation.box(size).apply_translation(at + size / 2)


def join(*meshes):
    return trimesh.util.concatenate(list(meshes))


def raw(vertices, faces):
    return trimesh.Trimesh(np.asarray(vertices, float), np.asarray(faces), process=False)


def klein_bottle(n=24):
    """A Klein bottle (figure 8): one-sided, and without a boundary."""
    u, v = np.meshgrid(2 * np.pi * np.arange(n) / n, 2 * np.pi * (np.arange(n) + 0.5) / n, indexing="ij")
    r = 2 + np.cos(u / 2) * np.sin(v) - np.sin(u / 2) * np.sin(2 * v)
    z = np.sin(u / 2) * np.sin(v) + np.cos(u / 2) * np.sin(2 * v)
    points = np.stack([r * np.cos(u), r * np.sin(u), z], axis=-1).reshape(-1, 3) * 0.01
    faces = []
    for i in range(n):
        for j in range(n):
            a, b = i * n + j, i * n + (j + 1) % n
            # One turn around u reflects v.
            c, d = ((i + 1) * n + j, (i + 1) * n + (j + 1) % n) if i + 1 < n else (n - 1 - j, (n - 2 - j) % n)
            faces += [(a, b, d), (a, d, c)]
    return raw(points, faces)


def stl(path, triangles):
    """Write triangles (m, 3, 3) as binary STL."""
    data = b"\0" * 80 + struct.pack("<I", len(triangles))
    for triangle in np.asarray(triangles, np.float32):
        data += np.zeros(3, np.float32).tobytes() + triangle.tobytes() + b"\0\0"
    path.write_bytes(data)
    return path


def one_line(error) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    assert len(text) < 400
    return text


# ---------------------------------------------------------------- files that are refused

NAN_TRIANGLES = np.array([[[0, 0, 0], [1, 0, 0], [0, np.nan, 0]]])
FILES = {
    "part.step": (b"ISO-10303-21;", "export .* as STL"),
    "part.STP": (b"ISO-10303-21;", "export .* as STL"),
    "part.igs": (b"anything", "export .* as STL"),
    "part.f3d": (b"PK", "export .* as STL"),
    "part.sldprt": (b"anything", "export .* as STL"),
    "part.xyz": (b"0 0 0", "unknown suffix '.xyz'"),
    "part": (b"0 0 0", "unknown suffix ''"),
    "empty.stl": (b"", "the file is empty"),
    "blank.stl": (b"  \n ", "the file is empty"),
    "none.stl": (b"\0" * 80 + struct.pack("<I", 0), "no triangles"),
    "short.stl": (b"\0" * 80 + struct.pack("<I", 12) + b"\0" * 100, "promises 12 triangles, the file holds 2"),
    "noise.stl": (bytes(range(256)) * 3, "not a complete STL"),
    "tiny.stl": (b"hello", "not a complete STL"),
    "cut.stl": (b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n", "ends in the middle"),
    "word.stl": (b"solid a\nvertex 0 zero 0\nvertex 0 0 0\nvertex 1 0 0\nendsolid", "not three numbers"),
    "points.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\n", "no triangles"),
    "noise.ply": (b"ply\nformat nonsense", "cannot be read as PLY|no triangles"),
    "noise.off": (b"OFF\n1 2", "cannot be read as OFF|no triangles"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_file_is_refused_in_one_line_that_names_it(tmp_path, name):
    content, reason = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason) as error:
        read_surface(path, units="mm")
    assert name in one_line(error)


def test_nan_missing_folder_and_unreadable_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="1 vertices have nan") as error:
        read_surface(stl(tmp_path / "nan.stl", NAN_TRIANGLES), units="mm")
    assert "nan.stl" in one_line(error)
    with pytest.raises(InputError, match="no such file") as error:
        read_surface(tmp_path / "lost.stl", units="mm", name="chamber 2")
    assert "chamber 2" in one_line(error)
    (tmp_path / "folder.stl").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        read_surface(tmp_path / "folder.stl", units="mm")


def test_units_are_required_for_files_known_and_applied(tmp_path):
    path = stl(tmp_path / "box.stl", box((100, 20, 10)).triangles)
    with pytest.raises(InputError, match="units='mm'"):
        read_surface(path)
    with pytest.raises(InputError, match="'furlong' is unknown"):
        read_surface(path, units="furlong")
    for unit, metres in (("mm", 1e-3), ("cm", 1e-2), ("m", 1.0), ("in", 0.0254)):
        surface = read_surface(path, units=unit)
        assert surface.volume == pytest.approx(20000 * metres**3, rel=1e-12)
        assert len(surface.vertices) == 8
    assert read_surface(box()).volume == pytest.approx(4e-5)
    assert read_surface(box(), units="mm").volume == pytest.approx(4e-14)


def test_ascii_and_binary_stl_obj_ply_and_off_agree(tmp_path):
    mesh = trimesh.creation.icosphere(2, 10.0)
    volumes = []
    for suffix in ("stl", "obj", "ply", "off"):
        mesh.export(tmp_path / f"ball.{suffix}")
        volumes.append(check_surface(tmp_path / f"ball.{suffix}", units="mm").volume)
    (tmp_path / "ascii.stl").write_text(mesh.export(file_type="stl_ascii"))
    volumes.append(check_surface(tmp_path / "ascii.stl", units="mm").volume)
    np.testing.assert_allclose(volumes, mesh.volume * 1e-9, rtol=1e-6)


# ---------------------------------------------------------------- surfaces that are refused


def holed():
    mesh = box()
    return raw(mesh.vertices, mesh.faces[1:])


def bowtie_edge():
    return join(box((0.02, 0.02, 0.02)), box((0.02, 0.02, 0.02), (0.02, 0.02, 0.0)))


def pushed_through():
    """A box whose top corner is pulled out through the opposite side."""
    mesh = trimesh.creation.box((0.02, 0.02, 0.02)).subdivide()
    vertices = mesh.vertices.copy()
    top = np.argmax(vertices @ [0.01, 0.02, 1.0])
    vertices[top] = (0.0013, 0.0017, -0.05)
    return raw(vertices, mesh.faces)


SURFACES = {
    "open": (holed, "open, 3 edges"),
    "touching along an edge": (bowtie_edge, "non-manifold, 1 edges"),
    "one-sided": (klein_bottle, "one-sided"),
    "overlapping parts": (lambda: join(box(), box(at=(0.05, 0.0013, 0.0017))), "self-intersecting, [0-9]+ pairs"),
    "touching parts": (lambda: join(box(), box(at=(0.1, 0.003, 0.001))), "self-intersecting"),
    "vertex through a wall": (pushed_through, "self-intersecting"),
    "nan": (lambda: raw([[0, 0, np.nan], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), "nan"),
    "infinite": (lambda: Surface(np.array([[0, 0, np.inf], [1, 0, 0], [0, 1, 0]]), [[0, 1, 2]]), "infinite"),
    "empty": (lambda: trimesh.Trimesh(), "empty"),
    "a point": (lambda: raw(np.zeros((4, 3)), [[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]), "one point"),
    "flat": (lambda: raw([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 1]]), "enclose nothing"),
    "metres for millimetres": (lambda: box((100, 20, 20)), r"suspicious size.*diagonal of 103.9 m.*units = 'mm'"),
    "millimetres for metres": (lambda: box((1e-4, 2e-5, 2e-5)), "suspicious size.*no unit of m, cm, mm, in fits"),
    "bad id": (lambda: Surface(np.eye(3), [[0, 1, 7]]), "vertex 7 of 3"),
    "negative id": (lambda: Surface(np.eye(3), [[0, 1, -1]]), "a triangle names vertex"),
    "quads": (lambda: Surface(np.zeros((4, 3)), [[0, 1, 2, 3]]), "triangulate"),
    "a number": (lambda: 5, "got int"),
}


@pytest.mark.parametrize("name", SURFACES)
def test_bad_surface_is_refused_in_one_line(name):
    make, reason = SURFACES[name]
    with pytest.raises(InputError, match=reason) as error:
        check_surface(make(), name="body")
    one_line(error)


def test_any_size_is_accepted_on_request():
    assert check_surface(box((100, 20, 20)), allow_any_size=True).volume == pytest.approx(4e4)


# ---------------------------------------------------------------- surfaces that are repaired


def sliver_box():
    """A box with a vertex in the middle of an edge, closed by a triangle of zero area."""
    mesh = box()
    a, b = mesh.faces[0][0], mesh.faces[0][1]
    new = len(mesh.vertices)
    third = mesh.faces[0][2]
    vertices = np.vstack([mesh.vertices, (mesh.vertices[a] + mesh.vertices[b]) / 2])
    faces = np.vstack([mesh.faces[1:], [[a, new, third], [new, b, third], [a, b, new]]])
    return raw(vertices, faces)


def test_sliver_triangles_are_removed_with_a_notice():
    surface = check_surface(sliver_box())
    assert surface.notices == ("body surface: 1 sliver triangles (zero area) removed",)
    assert len(surface.faces) == 14
    assert surface.volume == pytest.approx(4e-5, rel=1e-12)
    corners = surface.vertices[surface.faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    assert area.min() > 1e-5
    assert area.sum() == pytest.approx(2 * (0.1 * 0.04 + 4e-4), rel=1e-12)


def test_chain_of_slivers_along_one_edge_is_removed():
    """Many collinear points fanned into one corner: every sliver's neighbour is a sliver too."""
    mesh = box()
    a, b, third = mesh.faces[0]
    n = 9
    inner = mesh.vertices[a] + np.linspace(0, 1, n + 2)[1:-1, None] * (mesh.vertices[b] - mesh.vertices[a])
    chain = [a, *range(len(mesh.vertices), len(mesh.vertices) + n), b]
    fan = [[chain[i], chain[i + 1], third] for i in range(n + 1)]
    slivers = [[a, chain[i + 1], chain[i]] for i in range(1, n + 1)]
    surface = check_surface(raw(np.vstack([mesh.vertices, inner]), np.vstack([mesh.faces[1:], fan, slivers])))
    assert len(surface.notices) == 1
    assert "9 sliver" in surface.notices[0]
    assert surface.volume == pytest.approx(4e-5, rel=1e-12)


def test_duplicate_vertices_and_triangles_are_merged_with_a_notice():
    mesh = box()
    soup = raw(
        mesh.triangles.reshape(-1, 3) + np.random.default_rng(0).uniform(-1e-10, 1e-10, (36, 3)),
        np.arange(36).reshape(-1, 3),
    )
    surface = check_surface(soup)
    assert surface.notices == ("body surface: 28 duplicate vertices merged",)
    assert len(surface.vertices) == 8
    assert surface.volume == pytest.approx(4e-5, rel=1e-6)
    twice = check_surface(raw(mesh.vertices, np.vstack([mesh.faces, mesh.faces[:2]])))
    assert len(twice.faces) == 12
    assert "2 sliver or duplicate" in twice.notices[0]
    membrane = np.vstack([mesh.faces, [[0, 3, 5], [0, 5, 3]]])  # two triangles of opposite sense inside the box
    assert check_surface(raw(mesh.vertices, membrane)).volume == pytest.approx(4e-5)


def test_flipped_and_mixed_orientation_is_repaired_with_a_notice():
    mesh = trimesh.creation.icosphere(2, 0.02)
    assert check_surface(mesh).notices == ()
    inverted = check_surface(raw(mesh.vertices, mesh.faces[:, ::-1]))
    assert inverted.notices == ("body surface: orientation of 320 of 320 triangles flipped outward",)
    mixed = mesh.faces.copy()
    turned = np.random.default_rng(1).random(len(mixed)) < 0.4
    mixed[turned] = mixed[turned, ::-1]
    surface = check_surface(raw(mesh.vertices, mixed))
    assert f"orientation of {turned.sum()} of 320" in surface.notices[0]
    assert inverted.volume == pytest.approx(mesh.volume)
    assert surface.volume == pytest.approx(mesh.volume)


def test_inner_shells_point_into_their_cavity():
    """Ball in a cavity in a ball: volumes add with alternating sign whatever the input's senses."""
    radii = [0.03, 0.02, 0.01]
    balls = [trimesh.creation.icosphere(2, r) for r in radii]
    surface = check_surface(join(*balls))
    expected = balls[0].volume - balls[1].volume + balls[2].volume
    assert surface.volume == pytest.approx(expected, rel=1e-12)
    assert "320 of 960" in surface.notices[0]
    balls[1].invert()
    assert check_surface(join(*balls)).notices == ()


def test_check_keeps_a_good_surface_as_it_is():
    mesh = trimesh.creation.torus(0.03, 0.01)
    surface = check_surface(mesh)
    assert surface.notices == ()
    assert len(surface.vertices) == len(mesh.vertices)
    assert surface.volume == pytest.approx(mesh.volume, rel=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        surface.vertices[0] = 0


# ---------------------------------------------------------------- predicates


def random_triangles(seed, count, size):
    rng = np.random.default_rng(seed)
    return rng.random((count, 1, 3)) + rng.normal(scale=size, size=(count, 3, 3))


def crosses_by_solving(t, s):
    """Whether an edge of one triangle passes through the other: one 3 x 3 linear system an edge."""
    for a, b in ((t, s), (s, t)):
        for i in range(3):
            p, q = a[i], a[(i + 1) % 3]
            matrix = np.stack([q - p, b[0] - b[1], b[0] - b[2]], axis=1)
            r, v, w = np.linalg.solve(matrix, b[0] - p)
            if 0 <= r <= 1 and v >= 0 and w >= 0 and v + w <= 1:
                return True
    return False


@pytest.mark.slow
def test_crossing_pairs_are_those_found_by_linear_algebra():
    triangles = random_triangles(3, 150, 0.12)
    found = {tuple(p) for p in crossing_pairs(triangles.reshape(-1, 3), np.arange(450).reshape(-1, 3), tolerance=0.0)}
    expected = {(i, j) for i in range(150) for j in range(i + 1, 150) if crosses_by_solving(triangles[i], triangles[j])}
    assert len(expected) > 50
    assert found == expected


@pytest.mark.parametrize("kind", ["corner above a face", "edges crossing at a distance", "parallel planes"])
def test_triangles_touch_up_to_the_tolerance(kind):
    base = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], float)
    gap = 1e-3
    other = {
        "corner above a face": np.array([[0.2, 0.3, gap], [0.1, 0.2, 1], [0.4, 0.2, 1]]),
        "edges crossing at a distance": np.array([[0.5, -gap, -0.5], [0.45, -gap, 0.5], [0.5, -1, 0.1]]),
        "parallel planes": base + [0.1, 0.05, gap],
    }[kind]
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    vertices = np.vstack([base, other]) @ turn.T + 3.0
    faces = np.arange(6).reshape(2, 3)
    assert len(crossing_pairs(vertices, faces, tolerance=0.999 * gap)) == 0
    assert crossing_pairs(vertices, faces, tolerance=1.001 * gap).tolist() == [[0, 1]]
    one = crossing_pairs(vertices, faces, tolerance=0.0, group=np.array([0, 1]), group_tolerance=1.001 * gap)
    assert one.tolist() == [[0, 1]]


def test_neighbours_count_only_when_they_fold_or_cross():
    vertices = np.array(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0.2, 0.8, 0], [-1, 0.3, 0.5], [1, 0.3, -0.4], [50, 0, 0]], float
    )  # the last makes the sweep go along x

    def pairs(*faces):
        """Both ways round: the sweep meets the triangles in either order."""
        found = [len(crossing_pairs(sign * vertices, np.array(faces), tolerance=1e-12)) for sign in (1, -1)]
        assert found[0] == found[1]
        return found[0]

    assert pairs([0, 1, 2], [2, 1, 3]) == 0  # coplanar, side by side
    assert pairs([0, 1, 2], [0, 4, 1]) == 1  # coplanar, folded on each other
    assert pairs([0, 1, 2], [0, 2, 5]) == 0  # at an angle
    assert pairs([0, 1, 3], [0, 5, 2]) == 0  # a common corner only
    assert pairs([2, 0, 1], [2, 5, 6]) == 1  # a common corner, and the far edge passes through
    assert pairs([0, 1, 2], [1, 2, 0]) == 0  # the same triangle


def test_winding_number_counts_enclosures():
    outer, inner = trimesh.creation.icosphere(2, 1.0), trimesh.creation.icosphere(2, 0.5)
    vertices = np.vstack([outer.vertices, inner.vertices])
    faces = np.vstack([outer.faces, inner.faces[:, ::-1] + len(outer.vertices)])
    points = np.array([[0.0, 0, 0], [0.7, 0.1, 0], [2, 1, 1]])
    np.testing.assert_allclose(shells.winding_numbers(points, vertices, faces), [0, 1, 0], atol=1e-12)
    both = np.vstack([outer.faces, inner.faces + len(outer.vertices)])
    assert shells.winding_numbers(points[0][None], vertices, both) == pytest.approx(2)


def test_inner_point_lies_between_thin_walls():
    """In a wall of 0.1 mm around a large cavity the seed is in the wall, and the cavity's is not."""
    outer, inner = box((0.1, 0.1, 0.1)), box((0.0998, 0.0998, 0.0998), (1e-4, 1e-4, 1e-4))
    vertices = np.vstack([outer.vertices, inner.vertices])
    all_faces = np.vstack([outer.faces, inner.faces + 8]).astype(np.int64)
    wall = shells.inner_point(vertices, all_faces[:12], all_faces)
    assert shells.winding_numbers(wall[None], vertices, all_faces[:12]) == pytest.approx(1)
    assert shells.winding_numbers(wall[None], vertices, all_faces[12:]) == pytest.approx(0)
    inside = shells.inner_point(vertices, all_faces[12:], all_faces)
    assert shells.winding_numbers(inside[None], vertices, all_faces[12:]) == pytest.approx(1)


def test_farthest_distance_to_triangles():
    mesh = box((1, 1, 1))
    points = np.array([[0.5, 0.5, 1.25], [0.5, 0.5, 0.5], [-0.3, -0.4, 0.5]])
    for point, distance in zip(points, (0.25, 0.5, 0.5)):
        assert farthest_from(point[None], np.asarray(mesh.vertices), np.asarray(mesh.faces))[0] == pytest.approx(
            distance
        )
    assert farthest_from(points[:2], np.asarray(mesh.vertices), np.asarray(mesh.faces))[0] == pytest.approx(0.5)


def test_public_surface_with_holes_is_refused(reference_data):
    with pytest.raises(InputError, match=r"not_watertight\.stl.*open, 940 edges") as error:
        check_surface(reference_data / "meshes" / "bad" / "not_watertight.stl", units="mm")
    one_line(error)


def test_a_size_that_fits_no_robot_names_the_unit_that_fits(tmp_path):
    box((0.06, 0.016, 0.016)).export(tmp_path / "body.stl")
    with pytest.raises(InputError, match=r"check the unit: units = 'm' \(64.12 mm\) fits"):
        check_surface(tmp_path / "body.stl", units="mm")
    box((90.0, 20.0, 20.0)).export(tmp_path / "body.stl")
    with pytest.raises(InputError, match=r"units = 'mm' \(94.34 mm\) fits, so does units = 'cm' \(943.4 mm\)"):
        check_surface(tmp_path / "body.stl", units="m")


def test_an_opening_is_refused_with_its_width_and_place_and_a_sheet_as_a_sheet():
    box = trimesh.creation.box((0.06, 0.02, 0.02))
    top = np.isin(box.faces, np.flatnonzero(box.vertices[:, 2] > 0.0)).all(axis=1)
    can = trimesh.Trimesh(box.vertices, box.faces[~top], process=False)
    with pytest.raises(InputError, match=r"widest opening is 63\.2 mm across near \(0, 0, 10\) mm; close the holes"):
        check_surface(can)
    with pytest.raises(InputError, match=r"63\.2 mm across .* it is a sheet, no solid"):
        check_surface(trimesh.Trimesh(box.vertices, box.faces[top], process=True).subdivide())


def test_dust_is_refused_whether_rescued_or_not():
    """An envelope made a robot of one of the balls."""
    places = np.random.default_rng(0).uniform(-0.03, 0.03, (501, 3))
    dust = trimesh.util.concatenate([trimesh.creation.box((1e-4,) * 3).apply_translation(p) for p in places])
    for rescue in (False, True):
        with pytest.raises(InputError, match=r"501 separate closed parts, e\.g\. one of 0\.17 mm near"):
            VolumetricRobot.from_surfaces(
                dust, material="ecoflex-00-30-fang2022", fixed=lambda x: x[:, 0] < 0.0, rescue=rescue
            )
