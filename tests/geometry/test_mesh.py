"""Surfaces to tetrahedra: volumes, regions, conformity, what is refused, and a mesher that may crash."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
import types
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pytest
import trimesh
from manifold3d import Manifold, Mesh64

import geosim
import geosim.geometry.mesh as mesher
from geosim.errors import InputError, MeshError
from geosim.generate.surfaces import SEGMENTS, circle, tube
from geosim.geometry import child, remedies
from geosim.geometry import mesher as engines
from geosim.geometry.child import RESCUE_ADVICE, Allowance
from geosim.geometry.domain import build_domain
from geosim.geometry.intersections import deviation
from geosim.geometry.mesh import MesherError, mesh_surfaces
from geosim.geometry.quality import mesh_quality
from geosim.geometry.remedies import mesh_remeshed, remeshed_surfaces
from geosim.geometry.surface import check_surface
from geosim.geometry.topology import boundary_faces, mid_edges, tet_volumes
from geosim.geometry.widths import widths

ROOT = Path(__file__).resolve().parents[2]


def box(size=(0.1, 0.02, 0.02), at=(0.0, 0.0, 0.0)):
    """A box with its lowest corner at a point [m]."""
    size, at = np.asarray(size, float), np.asarray(at, float)
    return trimesh.creation.box(size).apply_translation(at + size / 2)


def ball(radius, at=(0, 0, 0), subdivisions=2):
    return trimesh.creation.icosphere(subdivisions, radius).apply_translation(at)


def manifold(surface):
    return Manifold(Mesh64(vert_properties=np.array(surface.vertices), tri_verts=np.array(surface.faces, np.uint64)))


def checked(body, chambers):
    """Check Trimeshes [m] of bodies and chambers."""
    bodies = body if isinstance(body, list) else [body]
    names = ["body"] if len(bodies) == 1 else [f"body {i}" for i in range(len(bodies))]
    return (
        [check_surface(b, name=n) for b, n in zip(bodies, names)],
        [check_surface(c, name=f"chamber {i + 1}") for i, c in enumerate(chambers)],
    )


def mesh(body, chambers=(), max_edge=0.006, **options):
    """Check and mesh Trimeshes [m]."""
    return mesh_surfaces(*checked(body, chambers), max_edge=max_edge, **options)


def previewed(body, chambers=(), max_edge=None):
    """Check Trimeshes [m] and mesh a preview of them."""
    return mesh_remeshed(*checked(body, chambers), max_edge=max_edge, allowed=Allowance.of(60.0), preview=True)


def faces_of(tets):
    """Sorted vertex ids of all faces (4m, 3), tet by tet."""
    return np.sort(tets[:, [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]].reshape(-1, 3), axis=1)


def assert_conforming(tets):
    """No face has more than two tets, and the boundary of the whole is closed."""
    faces, count = np.unique(faces_of(tets), axis=0, return_counts=True)
    assert count.max() == 2
    skin = faces[count == 1]
    edges = np.sort(np.vstack([skin[:, [0, 1]], skin[:, [1, 2]], skin[:, [0, 2]]]), axis=1)
    assert np.all(np.unique(edges, axis=0, return_counts=True)[1] % 2 == 0)


BODY = box()
CHAMBER = box((0.09, 0.01, 0.006), (0.005, 0.005, 0.011))


def test_volumes_regions_and_orientation_of_a_finger():
    found = mesh(BODY, [CHAMBER])
    assert tet_volumes(found.vertices, found.tets).min() > 0
    assert found.body_regions == (0,)
    assert found.chamber_regions == (1,)
    assert found.region_volume(0) == pytest.approx(34.6e-6, rel=1e-9)
    assert found.region_volume(1) == pytest.approx(5.4e-6, rel=1e-9)
    assert found.notices == ()
    assert_conforming(found.tets)
    assert_conforming(found.tets[found.regions == 1])
    centres = found.vertices[found.tets].mean(axis=1)
    inside = np.all((centres > [0.005, 0.005, 0.011]) & (centres < [0.095, 0.015, 0.017]), axis=1)
    assert np.array_equal(found.regions == 1, inside)
    assert np.array_equal(np.unique(found.tets), np.arange(len(found.vertices)))
    with pytest.raises(ValueError, match="read-only"):
        found.vertices[0] = 0


def test_surface_vertices_are_kept_to_the_bit():
    body, chamber = ball(0.02), ball(0.01)
    found = mesh(body, [chamber])
    kept = {tuple(v) for v in found.vertices}
    assert all(tuple(v) in kept for v in np.vstack([body.vertices, chamber.vertices]))


@pytest.mark.parametrize("extra", [0, 1])
def test_body_may_contain_the_cavity(extra):
    """The same regions whether the body's file has the cavity as an inner shell or not, whatever its triangles."""
    cut = trimesh.util.concatenate([BODY, CHAMBER.subdivide() if extra else CHAMBER])
    found = mesh(cut, [CHAMBER])
    assert found.region_volume(0) == pytest.approx(34.6e-6, rel=1e-9)
    assert found.region_volume(1) == pytest.approx(5.4e-6, rel=1e-9)
    assert "flipped" in found.notices[0]  # the concatenation left the inner shell outward
    assert ["is the cavity of chamber 1" in n for n in found.notices[1:]] == [
        True
    ] * extra  # other triangles: it is said


def test_sealed_void_stays_a_hole_with_a_notice():
    void = box((0.01, 0.01, 0.01), (0.08, 0.005, 0.005))
    chamber = box((0.05, 0.01, 0.01), (0.02, 0.005, 0.005))
    void.invert()
    found = mesh(trimesh.util.concatenate([BODY, void]), [chamber])
    assert found.region_volume(0) == pytest.approx(4e-5 - 1e-6 - 5e-6, rel=1e-9)
    assert found.tets.shape[0] == np.sum(np.isin(found.regions, [0, 1]))
    assert found.notices == (
        "body surface: a sealed void of 1 cm^3 is kept as a hole; to inflate it, give its surface as a "
        'chamber or set chambers = "cavities"',
    )
    assert_conforming(found.tets)


def test_several_chambers_keep_their_order():
    chambers = [box((0.01 * k, 0.01, 0.01), (0.005 + 0.033 * (3 - k), 0.005, 0.005)) for k in (1, 2, 3)]
    found = mesh(box((0.11, 0.02, 0.02)), chambers)
    for k in (1, 2, 3):
        assert found.region_volume(k) == pytest.approx(k * 1e-6, rel=1e-9)
    assert found.region_volume(0) == pytest.approx(44e-6 - 6e-6, rel=1e-9)


def test_chamber_around_an_island_of_body():
    """A ring-shaped cavity closed on all sides: what floats inside it is body."""
    core = ball(0.02)
    core.invert()
    chamber = trimesh.util.concatenate([ball(0.03), core])
    found = mesh(ball(0.04), [chamber], max_edge=0.008)
    volumes = [ball(r).volume for r in (0.04, 0.03, 0.02)]
    assert found.region_volume(0) == pytest.approx(volumes[0] - volumes[1] + volumes[2], rel=1e-9)
    assert found.region_volume(1) == pytest.approx(volumes[1] - volumes[2], rel=1e-9)


def test_bodies_that_share_a_wall_or_lie_inside_get_regions_of_their_own():
    layer = box((0.1, 0.02, 0.003), (0, 0, -0.003))
    found = mesh([BODY, layer], [CHAMBER])
    assert found.body_regions == (0, 2)
    assert found.region_volume(2) == pytest.approx(6e-6, rel=1e-9)
    assert found.region_volume(0) == pytest.approx(34.6e-6, rel=1e-9)
    assert_conforming(found.tets)
    touching = set(np.unique(found.tets[found.regions == 2])) & set(np.unique(found.tets[found.regions == 0]))
    assert np.allclose(found.vertices[list(touching), 2], 0)
    inlay = mesh([BODY, box((0.09, 0.016, 0.002), (0.005, 0.002, 0.003))], [CHAMBER])
    assert inlay.region_volume(0) == pytest.approx(34.6e-6 - 2.88e-6, rel=1e-9)
    assert inlay.region_volume(2) == pytest.approx(2.88e-6, rel=1e-9)


def test_chamber_closed_by_a_second_body():
    """An open trough and its lid enclose the chamber; neither contains it alone."""
    trough = (manifold(BODY) - manifold(box((0.09, 0.01, 0.03), (0.005, 0.005, 0.005)))).to_mesh64()
    trough = trimesh.Trimesh(trough.vert_properties[:, :3], trough.tri_verts, process=False)
    lid = box((0.1, 0.02, 0.003), (0, 0, 0.02))
    chamber = box((0.09, 0.01, 0.015), (0.005, 0.005, 0.005))
    found = mesh([trough, lid], [chamber])
    assert found.region_volume(0) == pytest.approx(4e-5 - 13.5e-6, rel=1e-9)
    assert found.region_volume(1) == pytest.approx(13.5e-6, rel=1e-9)
    assert found.region_volume(2) == pytest.approx(6e-6, rel=1e-9)


def test_thin_triangles_of_a_cad_export_leave_no_trace():
    """A wall cut into needles of aspect 1000 meshes like the plain one: coplanar triangles are one facet."""
    x = np.concatenate([[0.0], np.linspace(0.04, 0.0404, 9), [0.1]])
    ring = np.array([[0, 0], [0.02, 0], [0.02, 0.02], [0, 0.02]])
    vertices = np.array([[a, *p] for a in x for p in ring])
    faces = [[0, 3, 2], [0, 2, 1], *(np.array([[0, 1, 2], [0, 2, 3]]) + 4 * (len(x) - 1)).tolist()]
    for i in range(len(x) - 1):
        for j in range(4):
            a, b = 4 * i + j, 4 * i + (j + 1) % 4
            faces += [[a, b, b + 4], [a, b + 4, a + 4]]
    needles = trimesh.Trimesh(vertices, faces, process=False)
    assert needles.volume == pytest.approx(4e-5)
    found, plain = mesh(needles, [CHAMBER]), mesh(BODY, [CHAMBER])
    assert found.region_volume(0) == pytest.approx(34.6e-6, rel=1e-9)
    assert len(found.tets) < 6 * len(plain.tets)
    assert found.quality.radius_ratio_median > 0.6


def split_edge(surface, fraction):
    """Put a vertex on one edge of a surface, into both triangles."""
    a, b = surface.faces[0][:2]
    start, end = surface.vertices[[a, b]]
    vertices = np.vstack([surface.vertices, start + fraction * (end - start)])
    faces = []
    for face in surface.faces.tolist():
        if a in face and b in face:
            faces += [[len(vertices) - 1 if v == end else v for v in face] for end in (a, b)]
        else:
            faces.append(face)
    return trimesh.Trimesh(vertices, faces, process=False)


def test_tiny_edges_are_named_and_go_where_surfaces_are_remeshed():
    """A vertex 3 micrometres from a corner of chamber and body."""
    body, chamber = (check_surface(split_edge(*given)) for given in ((BODY, 1.5e-4), (CHAMBER, 5e-4)))
    assert body.notices == ()
    assert any("tiny details" in note and "remesh = true" in note for note in mesh(body, [chamber]).notices)
    found = mesh_remeshed([body], [chamber], max_edge=4e-3, allowed=Allowance.of(60.0))
    assert found.quality.edge_min > 1e-3
    assert found.region_volume(0) == pytest.approx(34.6e-6, rel=1e-9)
    assert not any("tiny" in note for note in found.notices)


def test_thin_wall_is_kept():
    """A wall thinner than what would be tidied away is meshed as it is."""
    found = mesh(BODY, [box((8e-4, 8e-4, 8e-4), (0.05, 0.01, 0.02 - 8.3e-4))])
    assert found.region_volume(1) == pytest.approx(5.12e-10, rel=1e-9)
    assert found.notices == ()


def test_default_edge_is_the_diagonal_over_40_and_bounds_the_tets():
    found = mesh(box((0.03, 0.002, 0.002)), max_edge=None)
    assert found.max_edge == pytest.approx(np.linalg.norm([0.03, 0.002, 0.002]) / 40)
    volumes = tet_volumes(found.vertices, found.tets)
    regular = found.max_edge**3 / (6 * np.sqrt(2))
    assert np.quantile(volumes, 0.98) < 1.5 * regular
    assert volumes.max() < 2 * regular
    assert 0.55 < found.quality.edge_median / found.max_edge < 1.4


@pytest.mark.slow
def test_quality_of_what_ships():
    """No tet of the default meshes is nearly flat."""
    for name in ("finger", "pneunet", "sphere"):
        body, chamber = (
            check_surface(ROOT / "meshes" / name / f"{part}.stl", units="mm") for part in ("body", "chamber")
        )
        quality = mesh_surfaces([body], [chamber], max_edge=0.004).quality
        assert quality.dihedral_min > 2.0
        assert quality.radius_ratio_min > 0.04
        assert quality.dihedral_median > 30.0  # degrees; a regular tet has 70.5, slivers near 0


def test_common_walls_of_unequal_triangles_are_cut_to_match():
    """A stack of layers, each of another size and turned, as CAD programs export glued parts."""
    layers = [
        BODY,
        box((0.06, 0.03, 0.003), (0.02, -0.005, -0.003)),
        box((0.03, 0.01, 0.002), (0.01, 0.001, 0.02)),
        box((0.05, 0.004, 0.004), (0.03, 0.002, -0.007)),
    ]
    turn = trimesh.transformations.rotation_matrix(0.7, (1, 2, 3), (0.01, 0.02, 0.03))
    found = mesh([layer.copy().apply_transform(turn) for layer in layers], [CHAMBER.copy().apply_transform(turn)])
    assert found.body_regions == (0, 2, 3, 4)
    for region, volume in zip(range(5), (34.6e-6, 5.4e-6, 5.4e-6, 0.6e-6, 0.8e-6)):
        assert found.region_volume(region) == pytest.approx(volume, rel=1e-9)
    assert_conforming(found.tets)
    assert sum("cut to match" in n for n in found.notices) == 4


# ---------------------------------------------------------------- refused

REFUSED = {
    "outside": (BODY, [box((0.01, 0.01, 0.01), (0.05, 0.1, 0))], "chamber 1 .*lies outside the body.*same unit"),
    "through the skin": (BODY, [box((0.05, 0.01, 0.01), (0.02, 0.005, 0.015))], "chamber 1 .*touches the skin"),
    "in the skin": (BODY, [box((0.05, 0.01, 0.01), (0.02, 0.005, 0.01))], "chamber 1 .*crosses or touches the skin"),
    "wall of a nanometre": (BODY, [box((0.05, 0.01, 0.01), (0.02, 0.005, 0.01 - 1e-9))], "crosses or touches the skin"),
    "around the body": (
        BODY,
        [box((0.2, 0.2, 0.2), (-0.05, -0.05, -0.05))],
        "body .*lies inside chamber 1.*are swapped",
    ),
    "equal to the body": (BODY, [BODY], "chamber 1 .*is the same surface as body"),
    "inlet through the wall": (
        trimesh.boolean.difference([BODY, CHAMBER, box((0.02, 0.004, 0.004), (-0.01, 0.008, 0.012))]),
        [CHAMBER],
        "chamber 1 .*crosses or touches the skin",
    ),
    "second chamber overlaps": (
        BODY,
        [CHAMBER, box((0.05, 0.008, 0.008), (0.02, 0.006, 0.007))],
        "chamber 2 .*overlaps or touches chamber 1",
    ),
    "second chamber touches": (
        BODY,
        [box((0.03, 0.01, 0.01), (0.01, 0.005, 0.005)), box((0.03, 0.01, 0.01), (0.04, 0.005, 0.005))],
        "chamber 2 .*overlaps or touches chamber 1",
    ),
    "second chamber inside": (
        BODY,
        [CHAMBER, box((0.05, 0.005, 0.003), (0.02, 0.007, 0.012))],
        "chamber 2 .*lies inside chamber 1",
    ),
    "on an assembly": (
        [BODY, box((0.1, 0.02, 0.003), (0, 0, -0.003))],
        [box((0.05, 0.01, 0.01), (0.02, 0.005, 0.02))],
        "chamber 1 .*walls without body behind",
    ),
    "bodies overlap": ([BODY, box((0.1, 0.02, 0.02), (0.05, 0.003, 0.003))], [], "body 1 .*crosses or touches body 0"),
    "bodies overlap by a hair": (
        [BODY, box((0.05, 0.02, 0.003), (0.02, 0, -0.0029))],
        [],
        "body 1 .*touches body 0.*not overlap",
    ),
    "loose body in a chamber": (
        [BODY, box((0.05, 0.005, 0.003), (0.02, 0.007, 0.012))],
        [CHAMBER],
        "body 1 .*lies inside chamber 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_misplaced_surface_is_refused_in_one_line_that_names_it(name):
    body, chambers, reason = REFUSED[name]
    with pytest.raises(InputError, match=reason) as error:
        mesh(body, chambers)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("edge", "reason"),
    [
        (-1.0, "must be a positive number"),
        (np.nan, "must be a positive number"),
        (1e-5, "million tets; choose a larger one"),
    ],
)
def test_impossible_max_edge_is_refused(edge, reason):
    with pytest.raises(InputError, match=reason):
        mesh(BODY, [CHAMBER], max_edge=edge)


def test_no_body_is_refused():
    with pytest.raises(InputError, match="at least one closed surface"):
        mesh_surfaces([])


# ---------------------------------------------------------------- the child process

FAKES = {
    "segfault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"tetgen crashed \(SIGSEGV\)"),
    "abort": ("import os; os.abort()", r"tetgen crashed \(SIGABRT\)"),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"SIGKILL, out of memory\?"),
    "exit": ("import os; os._exit(2)", r"tetgen failed \(exit status 2\)"),
    "message": ("raise RuntimeError('Two facets\\nexactly intersect.')", r"Two facets exactly intersect\)"),
}


def fake_tetgen(folder, monkeypatch, code):
    """Put a module `tetgen` before the real one, for the child process only, which no other one has started."""
    monkeypatch.setattr(child, "_RUN", ContextVar("none chosen"))
    (folder / "tetgen.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.parametrize("name", FAKES)
def test_crash_of_the_mesher_is_one_line_with_a_remedy(tmp_path, monkeypatch, name):
    code, reason = FAKES[name]
    fake_tetgen(tmp_path, monkeypatch, code)
    with pytest.raises(InputError, match=reason) as error:
        mesh(BODY, [CHAMBER])
    text = str(error.value)
    assert "\n" not in text
    assert "body surface" in text
    assert "geosim[rescue]" in text


# What no mesher takes: one triangle without an area.
FLAT = {
    "engine": "tetgen", "vertices": np.zeros((3, 3)), "faces": [[0, 1, 2]], "seeds": [], "holes": [], "switches": "Q",
}  # fmt: skip


def _asked_with_an_alarm(question):
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    return json.dumps(question)


def test_a_mesher_that_waits_meshes_again_and_again_and_says_what_is_wrong(monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(child, "_RUN", ContextVar("none chosen"))
        plain = mesh(BODY)
    with child.mesher_waiting() as server:
        first = server.process
        for _ in range(2):
            found = mesh(BODY)
            np.testing.assert_array_equal(found.tets, plain.tets)
            np.testing.assert_array_equal(found.vertices, plain.vertices)
        said = child.run_mesher(FLAT, Allowance.of(9.0), "body")
        assert said.startswith("tetgen failed (")
        with pytest.raises(MeshError, match=r"took more than 1e-06 s"):
            child.run_mesher(FLAT, Allowance.of(1e-6), "body")
        assert server.process is first, "one child has done all"
        first.kill()
        first.wait()
        np.testing.assert_array_equal(mesh(BODY).tets, plain.tets)  # one that has ended is replaced
        second = server.process
        os.kill(second.pid, signal.SIGSTOP)  # it does not answer until somebody loses patience
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        with monkeypatch.context() as asked:
            asked.setattr(child, "json", types.SimpleNamespace(dumps=_asked_with_an_alarm))
            with pytest.raises(KeyboardInterrupt):
                mesh(BODY)
        signal.signal(signal.SIGALRM, before)
        assert second.returncode is not None, "an answer that nobody waits for is none to the next question"
        np.testing.assert_array_equal(mesh(BODY).tets, plain.tets)
        third = server.process
    assert third.returncode is not None, "nobody asks it any more"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks where there are threads, as there may be in a test
def test_a_forked_mesher_finds_the_same_mesh_and_says_what_is_wrong(monkeypatch):
    plain = mesh(BODY)
    with child.meshers_forked():
        found = mesh(BODY)
        np.testing.assert_array_equal(found.tets, plain.tets)
        np.testing.assert_array_equal(found.vertices, plain.vertices)
        said = child.run_mesher(FLAT, Allowance.of(9.0), "body")
        assert said.startswith("tetgen failed (")
        assert "exit status" not in said
        monkeypatch.setitem(engines.ENGINES, "tetgen", lambda data: os.kill(os.getpid(), signal.SIGKILL))
        assert child.run_mesher(FLAT, Allowance.of(9.0), "body") == "tetgen crashed (SIGKILL, out of memory?)"
        monkeypatch.setitem(engines.ENGINES, "tetgen", lambda data: data.none)
        assert "failed (AttributeError: " in child.run_mesher(FLAT, Allowance.of(9.0), "body")
        monkeypatch.setitem(engines.ENGINES, "tetgen", lambda data: time.sleep(5.0))
        with pytest.raises(MeshError, match=r"took more than 0\.1 s"):
            child.run_mesher(FLAT, Allowance.of(0.1), "body")
    assert not multiprocessing.active_children()


SECOND = {
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    "overlap": (
        "v, e = np.vstack([v, v[e[0]].mean(axis=0)]), np.vstack([e, [*e[0, :3], len(v)]])",
        "tets that overlap at 1",
    ),
    "flat": ("v[e[0, 3]] = v[e[0, :3]].mean(axis=0)", "tets of zero volume"),
}


@pytest.mark.parametrize("fault", SECOND)
def test_second_attempt_is_told(tmp_path, monkeypatch, fault):
    """When what the strict switches make is no mesh and the weak ones work, a notice says so."""
    code, reason = SECOND[fault]
    fake_tetgen(
        tmp_path,
        monkeypatch,
        textwrap.dedent(f"""
        import os, signal, sys
        import numpy as np
        del sys.modules["tetgen"]
        sys.path.remove(os.path.dirname(__file__))
        import tetgen
        class TetGen(tetgen.TetGen):
            def tetrahedralize(self, switches):
                v, e, a, m = super().tetrahedralize(switches=switches)
                v, e, a = np.array(v), np.array(e), np.array(a)
                if switches.startswith("pq1.4"):
                    {code}
                    a = np.append(a, a[: len(e) - len(a)])
                return v, e, a, m
        tetgen.TetGen = TetGen
    """),
    )
    found = mesh(BODY, [CHAMBER])
    assert any("weaker quality bounds" in n and reason in n for n in found.notices)
    assert found.region_volume(1) == pytest.approx(5.4e-6, rel=1e-9)


def test_time_limit_ends_the_mesher(tmp_path, monkeypatch):
    fake_tetgen(tmp_path, monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(InputError, match=r"more than 0.2 s; choose a larger max_edge"):
        mesh(BODY, [CHAMBER], allowed=Allowance.of(0.2))


def test_a_limit_of_the_system_is_respected_and_named(tmp_path, monkeypatch):
    """`ulimit -t`: the mesher gets no more, and the file is not blamed."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (50, 60)); "
        "from geosim.geometry.child import system_seconds; print(system_seconds())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(found.stdout) == 50.0
    fake_tetgen(tmp_path, monkeypatch, "while True: pass")
    monkeypatch.setattr("geosim.geometry.child.system_seconds", lambda: 1.0)
    with pytest.raises(
        InputError, match=r"the 1 s of processor time that the system lets a process take \(ulimit -t\)"
    ):
        mesh(BODY, [CHAMBER], allowed=Allowance.of(30.0))


def test_lost_region_is_noticed(tmp_path, monkeypatch):
    """A mesher that returns only half of the tets does not pass."""
    fake_tetgen(
        tmp_path,
        monkeypatch,
        textwrap.dedent("""
        import os, sys
        del sys.modules["tetgen"]
        sys.path.remove(os.path.dirname(__file__))
        import tetgen
        class TetGen(tetgen.TetGen):
            def tetrahedralize(self, switches):
                v, e, a, m = super().tetrahedralize(switches=switches)
                return v, e[::2], a[::2], m
        tetgen.TetGen = TetGen
    """),
    )
    with pytest.raises(InputError, match="where the surface encloses"):
        mesh(BODY, [CHAMBER])


def gives_up(domain, edge, allowed, label, switches, most=None):
    """Tetgen on surfaces that are beyond it."""
    raise MesherError(f"{label}: tetgen failed; {RESCUE_ADVICE}")


@pytest.mark.slow
def test_a_preview_is_coarse_and_keeps_the_geometry():
    """A round chamber loses a little; the plane walls of the body stay where they are, however many tets were asked for."""
    tube = trimesh.creation.cylinder(0.006, 0.09, sections=96).apply_transform(
        trimesh.transformations.rotation_matrix(np.pi / 2, (0, 1, 0), (0, 0, 0))
    )
    tube.apply_translation((0.05, 0.01, 0.01))
    coarse = previewed(BODY, [tube], max_edge=0.004)
    assert len(coarse.tets) < 0.1 * 238_580  # of the mesh that is no preview; 7,124
    assert coarse.region_volume(0) + coarse.region_volume(1) == pytest.approx(BODY.volume, rel=1e-9)
    assert coarse.region_volume(1) == pytest.approx(tube.volume, rel=0.02)
    assert coarse.region_volume(1) != pytest.approx(tube.volume, rel=1e-6)
    assert any("chooses its own edges, not max_edge = 4 mm" in note for note in coarse.notices)
    assert any("remeshed from 396" in note for note in coarse.notices)
    assert_conforming(coarse.tets)


@pytest.mark.slow
def test_a_preview_of_a_fine_thin_slot_is_small_and_keeps_its_width():
    """A slot of 0.5 mm in a twisted rod of 13.5 mm: triangles move by a tenth of the slot, not of the rod, and stay whole."""
    design = geosim.generate.twister(
        length=20e-3, radius=6.75e-3, wall=0.5e-3, turns=1 / 5, cap=4e-3, pairs=36, parts=24
    )
    slot = design.chambers[0]
    assert len(slot.faces) > 7000
    ring = np.hstack([np.zeros((SEGMENTS, 1)), circle(6.75e-3)])
    rod = tube(np.stack([ring + [x, 0.0, 0.0] for x in np.linspace(0.0, 20e-3, 15)]))
    found = previewed(rod, [slot])
    assert np.isin(found.regions, found.body_regions).sum() < 15_000  # 10k
    assert found.region_volume(1) == pytest.approx(slot.volume, rel=0.01)
    shell = trimesh.Trimesh(found.vertices, boundary_faces(found.tets[found.regions == 1]), process=False)
    moved = deviation(slot, shell)[0]
    assert 0.005e-3 < moved < 0.1e-3
    wide = [np.median(widths(m.vertices, m.faces, (-1.0,))) for m in (shell, slot)]
    assert wide[0] == pytest.approx(wide[1], rel=0.05)


@pytest.mark.slow
def test_a_preview_that_cannot_be_meshed_keeps_its_triangles(monkeypatch):
    """Where the mesher fails on the simplified surfaces; if it fails on the others, too, that is said as always."""
    cube, hole = box((0.02, 0.02, 0.02)), ball(0.006, (0.01, 0.01, 0.01), 4)
    attempt, tried = mesher.attempt, []

    def fails(engine, domain, *given):
        tried.append(len(domain.vertices))
        return (None, MesherError("broken")) if len(tried) <= most else attempt(engine, domain, *given)

    monkeypatch.setattr(mesher, "attempt", fails)
    monkeypatch.setattr(remedies, "attempt", fails)
    most = 1
    found = previewed(cube, [hole])
    assert tried[0] < tried[-1] == len(cube.vertices) + len(hole.vertices)
    assert any("fails on the simplified surfaces of a preview" in note for note in found.notices)
    assert found.region_volume(1) == pytest.approx(hole.volume, rel=1e-9)
    most = 99
    with pytest.raises(InputError, match="broken"):
        previewed(cube, [hole])


@pytest.mark.slow
def test_triangles_far_finer_than_the_mesh_stay_unless_they_are_remeshed():
    ball = check_surface(trimesh.creation.icosphere(4, 0.01))
    own = mesh(ball, max_edge=5e-3)
    assert own.region_volume(0) == pytest.approx(ball.volume, rel=1e-9)
    assert own.notices == ()
    coarse = mesh_remeshed([ball], max_edge=5e-3, allowed=Allowance.of(60.0))
    assert len(coarse.tets) < 0.2 * len(own.tets)
    with pytest.raises(InputError, match=r"max_edge .* must be"):
        mesh(ball, max_edge="coarse")


@pytest.mark.slow
def test_walls_thinner_than_the_distance_stay_as_they_are_remeshed():
    """Two round walls of 256 and 255 corners, 2 micrometres apart; alone either may move by a tenth of a millimetre."""
    outer = trimesh.creation.cylinder(0.01, 0.1, sections=256)
    inner = trimesh.creation.cylinder(0.009998, 0.09, sections=255)

    def remeshed(*chambers):
        bodies, hollows = checked(outer, chambers)
        return remeshed_surfaces(build_domain(bodies, hollows), bodies, hollows, edge=0.01, within=1e-4)

    (alone,), _ = remeshed()
    assert len(alone.faces) < 0.5 * len(outer.faces)
    assert remeshed(inner) is None, "they keep their triangles"


@pytest.mark.slow
def test_wall_that_asks_for_millions_of_tets_is_refused(monkeypatch):
    """A wall of 30 micrometres over 9 cm^2."""
    monkeypatch.setattr("geosim.geometry.mesh.MAX_INSERTED_POINTS", 2e4)
    with pytest.raises(InputError, match="thin walls or tiny details ask for more than 20000 "):
        mesh(BODY, [box((0.09, 0.01, 0.006), (0.005, 0.005, 0.014 - 3e-5))])


def test_missing_rescue_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr("geosim.geometry.mesh.mesh_domain", gives_up)
    with pytest.raises(InputError, match=r"pip install 'geosim\[rescue\]'"):
        mesh(BODY, [CHAMBER])


SCRIPT = """
import trimesh
from geosim.geometry.child import RESCUE_ADVICE, Allowance
from geosim.geometry.mesh import MesherError, mesh_surfaces
from geosim.geometry.surface import check_surface
found = mesh_surfaces([check_surface(trimesh.creation.box((0.02, 0.02, 0.02)))], max_edge=0.01)
print("volume", round(found.region_volume(0) * 1e6, 9))
"""


@pytest.mark.parametrize("how", ["file", pytest.param("standard input", marks=pytest.mark.slow)])
def test_script_without_a_main_guard_works_and_leaves_no_file(tmp_path, how):
    """Run from a foreign folder, as a file and from standard input."""
    script = tmp_path / "script.py"
    if how == "file":
        script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script) if how == "file" else "-"],
        cwd=tmp_path,
        input=None if how == "file" else SCRIPT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "volume 8.0\n"
    assert [p.name for p in tmp_path.iterdir()] == (["script.py"] if how == "file" else [])


# ---------------------------------------------------------------- quality and parametric robots


def test_quality_of_known_tets():
    regular = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], float)
    quality = mesh_quality(regular, np.array([[0, 1, 3, 2]]))
    assert quality.dihedral_min == pytest.approx(np.degrees(np.arccos(1 / 3)))
    assert quality.radius_ratio_min == pytest.approx(1)
    assert quality.edge_min == pytest.approx(np.sqrt(8))
    corner = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    quality = mesh_quality(corner, np.array([[0, 1, 2, 3]]))
    assert quality.dihedral_min == pytest.approx(np.degrees(np.arctan(np.sqrt(2))))
    assert quality.radius_ratio_min == pytest.approx(3 * (1 / (3 + np.sqrt(3))) / (np.sqrt(3) / 2))
    assert tet_volumes(corner, np.array([[0, 1, 2, 3], [0, 2, 1, 3]])).tolist() == pytest.approx([1 / 6, -1 / 6])
    assert len(mid_edges(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), 5)[0]) == 9


def test_public_pneunet_meshes_with_its_cavity(reference_data):
    """The body's file contains the cavity as an inner shell, vertex for vertex."""
    folder = reference_data / "meshes" / "pneunet_lgpl"
    body = check_surface(folder / "pneunetCut.stl", units="mm")
    cavity = check_surface(folder / "pneunetCavityCut.stl", units="mm", name="chamber 1")
    assert body.notices == cavity.notices == ()
    found = mesh_surfaces([body], [cavity], max_edge=0.004)
    assert found.region_volume(0) == pytest.approx(51162.5e-9, rel=1e-8)
    assert found.region_volume(1) == pytest.approx(8887.5e-9, rel=1e-8)
    assert found.notices == ()
    assert found.quality.dihedral_min > 2.0
    alone = mesh_surfaces([body], max_edge=0.004)
    assert alone.region_volume(0) == pytest.approx(51162.5e-9, rel=1e-8)
    assert "sealed void of 8.887 cm^3" in alone.notices[0]
