"""Surfaces with the faults of real ones: solved, or refused with a remedy that is followed and works.

    GEOSIM_REFERENCE_DATA=... python benchmarks/surface_faults.py [NAME ...] [--mesh-only]

Every case is first given as it is found, without rescue, then with rescue=True; where that is refused too the remedy that the
message names is followed (by `Case.remedy`). `mm off`: largest distance of the boundary of the robot's body from the triangles
that were given, by VTK. A case is solved if the robot reaches V/V0 = 1.05 (without chamber: hangs under
gravity). The faults are made from a finger with one chamber, seeded; the public robots are those of the reference data.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
import trimesh

import geosim
from geosim import VolumetricRobot
from geosim.geometry.child import cpu_seconds
from geosim.geometry.holes import rim_loops
from geosim.geometry.surface import read_surface
from geosim.geometry.topology import boundary_faces

Mesh = trimesh.Trimesh
SIZE, CHAMBER = np.array([60.0, 16.0, 16.0]), np.array([44.0, 8.0, 8.0])  # mm
EDGE = 4e-3  # m: coarse meshes show as well whether a surface can be meshed
DATA = Path(os.environ.get("GEOSIM_REFERENCE_DATA", "none")) / "meshes"


@dataclass(frozen=True)
class Case:
    """A faulty robot: arguments of from_surfaces, and those that follow the remedy of its refusal."""

    body: Any
    chambers: Any = ()
    options: dict[str, Any] = field(default_factory=dict)
    remedy: Callable[[], Case] | None = None


def raw(vertices, faces) -> Mesh:
    return Mesh(np.asarray(vertices, float), np.asarray(faces, int), process=False)


def joined(*parts: Mesh) -> Mesh:
    starts = np.cumsum([0, *(len(p.vertices) for p in parts)])
    return raw(np.vstack([p.vertices for p in parts]), np.vstack([p.faces + s for p, s in zip(parts, starts)]))


def polydata(mesh: Mesh) -> pv.PolyData:
    return pv.PolyData(np.asarray(mesh.vertices), np.hstack([np.full((len(mesh.faces), 1), 3), mesh.faces]).ravel())


def distance(points: np.ndarray, meshes: list[Mesh]) -> np.ndarray:
    """Distance [mm] of points from triangles, by VTK."""
    closest = polydata(joined(*meshes)).find_closest_cell(points, return_closest_point=True)[1]
    return np.linalg.norm(points - closest, axis=1)


def box(size, at=(0.0, 0.0, 0.0), edge=6.0) -> Mesh:
    """A box round a point, in triangles of an edge [mm]."""
    mesh = trimesh.creation.box(size)
    return Mesh(*trimesh.remesh.subdivide_to_size(mesh.vertices, mesh.faces, edge)).apply_translation(at)


def body(edge=6.0) -> Mesh:
    mesh = box(SIZE, edge=edge)
    mesh.merge_vertices()
    return mesh


def chamber() -> Mesh:
    return box(CHAMBER)


def inverted(mesh: Mesh) -> Mesh:
    return raw(mesh.vertices, mesh.faces[:, ::-1])


def without(mesh: Mesh, gone) -> Mesh:
    return raw(mesh.vertices, np.delete(mesh.faces, gone, axis=0))


def near(mesh: Mesh, point, count: int) -> np.ndarray:
    return np.argsort(np.linalg.norm(mesh.triangles_center - point, axis=1))[:count]


def small_holes() -> Case:
    mesh = body(3.0)
    return Case(without(mesh, np.random.default_rng(0).choice(len(mesh.faces), 12, replace=False)), [chamber()])


def large_hole() -> Case:
    mesh = body()
    opened = without(mesh, np.flatnonzero(mesh.triangles_center[:, 0] > SIZE[0] / 2 - 1e-6))
    return Case(opened, [chamber()], remedy=lambda: Case(mesh, [chamber()]))


def open_tubes() -> Case:
    """Rims of nested tubes: the public surface with holes; the remedy joins each rim to the one beside it.

    Eight closed tubes and a piece between them are nine bodies in one file: each is held at its lowest millimetre.
    """
    mesh = trimesh.load(DATA / "bad/not_watertight.stl")
    loops = [np.array(loop) for loop in rim_loops(np.asarray(mesh.faces))]
    middles = np.array([mesh.vertices[loop].mean(axis=0) for loop in loops])
    strips, left = [], set(range(len(loops)))
    while left:
        i = left.pop()
        j = min(left, key=lambda k: np.linalg.norm(middles[k] - middles[i]))
        left.remove(j)
        strips.append(_strip(mesh.vertices, loops[i], loops[j]))
    mended = raw(mesh.vertices, np.vstack([mesh.faces, *strips]))
    low = lambda x: (x[:, 2] < 14.7e-3) | (np.abs(x[:, 2] - 35e-3) < 1e-3)  # noqa: E731
    return Case(mesh, remedy=lambda: Case(mended, options={"fixed": low}))


def _strip(points, first, second) -> np.ndarray:
    """Triangles between two loops round one axis, in the order of their angles about it."""
    middle = points[second].mean(axis=0)
    across = np.linalg.svd(points[second] - middle)[2][:2]
    rims = []
    for loop in (first, second):
        turn = np.unwrap(np.arctan2(*((points[loop] - middle) @ across.T).T))
        loop = loop if turn[-1] > turn[0] else loop[::-1]
        loop = np.roll(loop, -int(np.argmin(np.arctan2(*((points[loop] - middle) @ across.T).T))))
        around = np.append(loop, loop[0])
        rims.append((around, np.unwrap(np.arctan2(*((points[around] - middle) @ across.T).T))))
    (a, at), (b, bt) = rims
    m, n, faces = 0, 0, []
    while m < len(a) - 1 or n < len(b) - 1:
        if n == len(b) - 1 or (m < len(a) - 1 and at[m + 1] <= bt[n + 1]):
            faces.append((a[m], a[m + 1], b[n]))
            m += 1
        else:
            faces.append((a[m], b[n + 1], b[n]))
            n += 1
    return np.array(faces)


def strays() -> Case:
    flaps = [np.array([[0, 0, 9.0], [2, 0, 9.5], [0, 2, 9.2]]) + [x, 0, 0] for x in (-20.0, 10.0)]
    return Case(joined(body(), *(raw(f, [[0, 1, 2]]) for f in flaps)), [chamber()])


def fin() -> Case:
    mesh = body()
    a, b = mesh.edges_unique[0]
    tip = mesh.vertices[[a, b]].mean(axis=0) * 1.2
    return Case(raw(np.vstack([mesh.vertices, tip]), np.vstack([mesh.faces, [a, b, len(mesh.vertices)]])), [chamber()])


def inner_wall() -> Case:
    """A partition of the solid that a CAD program forgot: two halves that share one wall."""
    whole = trimesh.creation.box(SIZE)
    x = np.linspace(-0.5, 0.5, 3) * SIZE[0]
    points = np.array([(a, b, c) for a in x for b in (-8.0, 8.0) for c in (-8.0, 8.0)])

    def ring(i, j):
        return [(4 * i + a, 4 * j + a, 4 * j + b) for a, b in ((0, 1), (1, 3), (3, 2), (2, 0))] + [
            (4 * i + a, 4 * j + b, 4 * i + b) for a, b in ((0, 1), (1, 3), (3, 2), (2, 0))
        ]

    cap = lambda i: [(4 * i, 4 * i + 1, 4 * i + 3), (4 * i, 4 * i + 3, 4 * i + 2)]  # noqa: E731
    assert len(whole.faces) == 12
    return Case(raw(points, ring(0, 1) + ring(1, 2) + cap(0) + cap(1) + cap(2)))


def gap() -> Case:
    mesh = body()
    right = mesh.triangles_center[:, 0] > 0
    halves = [without(mesh, right), without(mesh, ~right).apply_translation([0.005, 0, 0])]
    return Case(joined(*halves), [chamber()])


def folded() -> Case:
    """Vertices of a fine skin pulled over each other, in three places."""
    mesh = body(2.0)
    points = mesh.vertices.copy()
    for x in (-15.0, 0.0, 15.0):
        for way in (-2.0, 2.0):
            near_top = np.argmin(np.linalg.norm(mesh.vertices - [x + way, 0, 8.0], axis=1))
            points[near_top] += [-2.0 * way, 0.1, 0.4]
    return Case(raw(points, mesh.faces), [chamber()])


def overlapping() -> Case:
    return Case(joined(box([40, 16, 16], [-10, 0, 0]), box([30, 12, 12.0], [15, 0, 0.3])))


def touching() -> Case:
    return Case(joined(box([30, 16, 16], [-15, 0, 0]), box([30, 12, 12.0], [15, 0, 0.0])))


def edge_contact() -> Case:
    """Two boxes that touch along an edge; the remedy unites them with a common strip."""
    first, second = trimesh.creation.box([30, 16, 16]), trimesh.creation.box([30, 16, 16])
    second.apply_translation([0, 16, 16])
    link = trimesh.creation.box([30, 1, 1]).apply_translation([0, 8, 8])
    united = lambda: Case(trimesh.boolean.union([first, second, link]))  # noqa: E731
    return Case(joined(first, second), remedy=united)


def slot() -> Case:
    cut = trimesh.creation.box([0.02, 20.0, 10.0]).apply_translation([10.0, 0, 8.0])
    return Case(trimesh.boolean.difference([trimesh.creation.box(SIZE), cut]))


def inner_shells() -> Case:
    return Case(joined(body(), inverted(chamber())), "cavities")


def other_triangles() -> Case:
    """The body's inner shell is a cylinder of 24 segments, the chamber file has 60."""
    tube = lambda n: trimesh.creation.cylinder(4.0, 40.0, sections=n).apply_transform(  # noqa: E731
        trimesh.transformations.rotation_matrix(np.pi / 2, [0, 1, 0])
    )
    return Case(joined(body(), inverted(tube(24))), [tube(60)])


def dense() -> Case:
    ball = trimesh.creation.icosphere(6, 12.0).apply_scale([2.0, 1.0, 1.0])  # 80k triangles
    return Case(ball, [trimesh.creation.icosphere(5, 7.0)], {"simplify": 2e-4})


def chamber_through_skin() -> Case:
    high = chamber().apply_translation([0, 0, 4.0])
    return Case(body(), [high], remedy=lambda: Case(body(), [chamber()]))


def wrong_unit() -> Case:
    return Case(body().apply_scale(1e-3), [], remedy=lambda: Case(body().apply_scale(1e-3), [], {"units": "m"}))


def one_sided() -> Case:
    n = 24
    u = 2 * np.pi * np.arange(n) / n
    points, faces = [], []
    for a in u:
        for b in u + np.pi / n:
            r = 2 + np.cos(a / 2) * np.sin(b) - np.sin(a / 2) * np.sin(2 * b)
            points.append(
                (
                    10 * r * np.cos(a),
                    10 * r * np.sin(a),
                    10 * (np.sin(a / 2) * np.sin(b) + np.cos(a / 2) * np.sin(2 * b)),
                )
            )
    for i in range(n):
        for j in range(n):
            a, b = i * n + j, i * n + (j + 1) % n
            c, d = ((i + 1) * n + j, (i + 1) * n + (j + 1) % n) if i + 1 < n else (n - 1 - j, (n - 2 - j) % n)
            faces += [(a, b, d), (a, d, c)]
    return Case(raw(points, faces), remedy=lambda: Case(trimesh.creation.torus(20.0, 8.0)))


def flipped() -> Case:
    mesh = body()
    faces = mesh.faces.copy()
    turned = np.random.default_rng(2).random(len(faces)) < 0.3
    faces[turned] = faces[turned][:, ::-1]
    return Case(raw(mesh.vertices, np.vstack([faces, faces[:5]])), [chamber()])


def t_junctions() -> Case:
    """One side of the skin is cut finer than its neighbours: vertices stand on the edges of others."""
    coarse, fine = trimesh.creation.box(SIZE), box(SIZE, edge=8.0)
    top = fine.triangles_center[:, 2] > 7.99
    return Case(joined(without(coarse, coarse.triangles_center[:, 2] > 7.99), without(fine, ~top)), [chamber()])


def public(name: str, skin: str, cavity: str, **options: Any) -> Callable[[], Case]:
    return lambda: Case(DATA / name / skin, [DATA / name / cavity], {"units": "mm", **options})


CASES: dict[str, Callable[[], Case]] = {
    "Springy (public)": public("springy_lgpl", "Springy.stl", "Springy_Cavity.stl", max_edge=6e-4, simplify=2e-5),
    "Accordeon (public)": public("accordeon_lgpl", "Accordeon_Surface.stl", "Accordeon_Cavity.stl", simplify=1e-4),
    "PneuNet (public)": public("pneunet_lgpl", "pneunetCut.stl", "pneunetCavityCut.stl", max_edge=6e-3),
    "beam (public)": lambda: Case(DATA.parent / "robots/beam/beam.stl"),
    "open tubes (public)": open_tubes,
    "small holes": small_holes,
    "large hole": large_hole,
    "stray triangles": strays,
    "fin": fin,
    "inner wall": inner_wall,
    "gap between halves": gap,
    "T-junctions": t_junctions,
    "folded skin": folded,
    "overlapping shells": overlapping,
    "touching shells": touching,
    "contact along an edge": edge_contact,
    "thin slot": slot,
    "inner shells, no chambers": inner_shells,
    "cavity in other triangles": other_triangles,
    "80k triangles": dense,
    "chamber through the skin": chamber_through_skin,
    "wrong unit": wrong_unit,
    "one-sided": one_sided,
    "flipped and doubled": flipped,
}


def off(case: Case, robot: VolumetricRobot) -> float:
    """Largest distance [mm] of the boundary of a robot's body from the triangles that were given."""
    parts = [case.body, *(() if isinstance(case.chambers, str) else case.chambers)]
    found = [read_surface(part, case.options.get("units", "mm")) for part in parts]
    x = robot.vertices[np.unique(boundary_faces(robot.body_tets))]
    return float(distance(1e3 * x, [raw(1e3 * s.vertices, s.faces) for s in found]).max())


def attempt(case: Case, rescue: bool, mesh_only: bool) -> tuple[str, str, float]:
    """Return what happened, "solved" or "refused", the notices or the message, and the distance from what was given [mm]."""
    hold = lambda x: x[:, 0] < x[:, 0].min() + 0.05 * np.ptp(x[:, 0])  # noqa: E731
    options = {"units": "mm", "max_edge": EDGE, "fixed": hold, **case.options}
    try:
        robot = VolumetricRobot.from_surfaces(
            case.body, case.chambers, material="dragon-skin-20-fang2022", rescue=rescue, time_limit=3600.0, **options
        )
    except geosim.InputError as error:
        return "refused", str(error), np.nan
    said = f"{len(robot.body_tets)} tets" + "".join(f"\n      {n}" for n in robot.notices)
    if mesh_only:
        return "meshed", said, off(case, robot)
    act = geosim.Inflation(volume_ratio=[1.05]) if robot.chambers else geosim.Passive()
    around = geosim.Environment(gravity=(0, 0, 0 if robot.chambers else -9.81))
    result = geosim.solve(robot, act, around, solver=geosim.EnergyShapeSolver(element="p1"), throw=False)
    return ("solved" if result.converged else result.status.name), said, off(case, robot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names of cases; default all")
    parser.add_argument("--mesh-only", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print all notices and messages")
    given = parser.parse_args()
    print(f"{'surface':28s}{'as found':10s}{'rescue':10s}{'remedy':10s}{'mm off':>9s}{'CPU s':>7s}")
    for name, make in CASES.items():
        if given.names and not any(part in name for part in given.names):
            continue
        if "public" in name and not DATA.is_dir():
            continue
        clock, case, apart = cpu_seconds(), make(), np.nan
        row, texts = [], []
        for rescue in (False, True):
            outcome, text, apart = attempt(case, rescue, given.mesh_only)
            row.append(outcome)
            texts.append(text)
            if outcome != "refused":
                break
        if row[-1] == "refused" and case.remedy is not None:
            outcome, text, apart = attempt(case.remedy(), True, given.mesh_only)
            row += [outcome]
            texts.append(text)
        cells = [*row, *[""] * (3 - len(row))]
        print(
            f"{name:28s}" + "".join(f"{cell:10s}" for cell in cells) + f"{apart:9.2g}{cpu_seconds() - clock:7.1f}",
            flush=True,
        )
        for text in texts if given.verbose else ():
            print(f"    {text}")


if __name__ == "__main__":
    main()
