"""Sixty seeded heaps of triangles with all faults at once: how many become robots, how far off, at what price.

    python benchmarks/surface_soups.py [KIND ...] [--count 10] [--solve] [--verbose]

Kinds: unions of overlapping parts, bellows that cross themselves, decimated scans with holes, flipped and doubled triangles,
inner shells in other triangles than the chambers', and everything together; in millimetres, metres and inches by turns. The
distance of the new surface from the true one is measured with VTK's cell locator, volumes by counting points that VTK (or, for
bellows, the profile) says are inside. CPU seconds are those of this process and its children, for one robot.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyvista as pv
import trimesh
import vtk
from surface_faults import distance, joined, polydata, raw

import geosim
from geosim import VolumetricRobot

Mesh = trimesh.Trimesh
UNITS = {"mm": 1.0, "m": 1e-3, "in": 1.0 / 25.4}  # of a millimetre
CELLS = 64  # along each side of the box in which points are counted for volumes
Inside = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Part:
    """A closed part [mm] and whether points are inside it."""

    mesh: Mesh
    inside: Inside


@dataclass(frozen=True)
class Soup:
    """What is given [mm], body and chambers, and what is meant by it."""

    body: Mesh
    chambers: list[Mesh]
    solids: list[Part]
    cavities: list[Part]


def part(mesh: Mesh) -> Part:
    def inside(points):
        test = vtk.vtkSelectEnclosedPoints()
        test.SetInputData(pv.PolyData(points))
        test.SetSurfaceData(polydata(mesh))
        test.SetTolerance(1e-9)
        test.Update()
        return pv.wrap(test.GetOutput())["SelectedPoints"].astype(bool)

    return Part(mesh, inside)


def turned(mesh: Mesh, rng, angle=0.4) -> Mesh:
    return mesh.apply_transform(trimesh.transformations.rotation_matrix(rng.uniform(-angle, angle), rng.normal(size=3)))


def primitive(rng, size: float) -> Mesh:
    kind = rng.integers(3)
    if kind == 0:
        mesh = trimesh.creation.box(size * rng.uniform(0.7, 1.3, 3))
    elif kind == 1:
        mesh = trimesh.creation.cylinder(0.5 * size * rng.uniform(0.7, 1.2), size * rng.uniform(0.8, 1.5), sections=24)
    else:
        mesh = trimesh.creation.icosphere(2, 0.6 * size)
    return turned(mesh, rng, 3.0)


def spine(rng) -> tuple[list[Part], Part]:
    """Parts that overlap along a line, the first a beam that holds a chamber all the way."""
    beam = part(turned(trimesh.creation.box([80, 20, 20]), rng))
    bumps = [
        part(primitive(rng, 18.0).apply_translation([x, *rng.uniform(-6, 6, 2)]))
        for x in np.linspace(-36, 36, int(rng.integers(3, 8)))
    ]
    cavity = trimesh.creation.cylinder(4.0, 60.0, sections=20)
    cavity.apply_transform(trimesh.transformations.rotation_matrix(np.pi / 2, [0, 1, 0]))
    cavity.apply_transform(np.eye(4))
    return [beam, *bumps], part(cavity)


def overlapping(rng) -> Soup:
    rng_beam = rng
    solids, cavity = spine(rng_beam)
    solids[0] = part(trimesh.creation.box([80, 20, 20]))
    return Soup(joined(*(s.mesh for s in solids)), [cavity.mesh], solids, [cavity])


def revolved(profile: np.ndarray, sections: int) -> Part:
    """A closed profile (n, 2) of z, r, first and last on the axis, turned about z; it may cross itself."""
    n = len(profile) - 2
    angle = 2 * np.pi * np.arange(sections) / sections
    rings = [np.stack([r * np.cos(angle), r * np.sin(angle), np.full(sections, z)], 1) for z, r in profile[1:-1]]
    points = np.vstack([*rings, [[0, 0, profile[0, 0]], [0, 0, profile[-1, 0]]]])
    faces = []
    for k in range(sections):
        m = (k + 1) % sections
        for i in range(n - 1):
            a, b, c, d = i * sections + k, i * sections + m, (i + 1) * sections + k, (i + 1) * sections + m
            faces += [(a, b, d), (a, d, c)]
        faces += [(n * sections, m, k), (n * sections + 1, (n - 1) * sections + k, (n - 1) * sections + m)]

    def inside(x):
        turn = np.arctan2(x[:, 1], x[:, 0])
        off = np.mod(turn, 2 * np.pi / sections) - np.pi / sections
        r = np.hypot(x[:, 0], x[:, 1]) * np.cos(off) / np.cos(np.pi / sections)
        wound = np.zeros(len(x))
        loop = np.vstack([profile, profile[:1]])
        for (z0, r0), (z1, r1) in itertools.pairwise(loop):  # crossings of a ray towards +z
            up = (r0 <= r) != (r1 <= r)
            if r0 == r1:
                continue
            at = z0 + (r - r0) * (z1 - z0) / (r1 - r0)
            wound += up * (at > x[:, 2]) * np.sign(r1 - r0)
        return np.abs(wound) > 0.5

    return Part(raw(points, faces), inside)


def bellows(rng) -> Soup:
    """Convolutions so steep that neighbours cross."""
    count, outer, inner = int(rng.integers(4, 8)), rng.uniform(18, 24), rng.uniform(10, 12)
    length = 70.0
    half = length / count * rng.uniform(0.52, 0.7)
    z, r = [0.0, 0.0], [0.0, inner + 2]
    for k in range(count):
        middle = length * (k + 0.5) / count
        z += [middle - 0.3 * half, middle - half, middle + half, middle + 0.3 * half]
        r += [inner, outer, outer, inner]
    z, r = [*z, length, length], [*r, inner + 2, 0.0]
    skin = revolved(np.column_stack([z, r]), int(rng.choice([24, 36, 48])))
    cavity = part(trimesh.creation.cylinder(6.0, 58.0, sections=32).apply_translation([0, 0, length / 2]))
    return Soup(skin.mesh, [cavity.mesh], [skin], [cavity])


def scan(rng) -> Soup:
    """A lumpy capsule, decimated, with holes up to some millimetres and stray triangles."""
    mesh = trimesh.creation.capsule(60.0, 16.0, count=[48, 64]).apply_translation([0, 0, -30])
    wave = rng.normal(size=(6, 3)) * 0.15
    lumps = sum(np.sin(mesh.vertices @ w + p) for w, p in zip(wave, rng.uniform(0, 6, 6)))
    mesh = raw(mesh.vertices + 0.5 * lumps[:, None] * mesh.vertex_normals, mesh.faces)
    thin = polydata(mesh).decimate(rng.uniform(0.5, 0.85))
    whole = raw(thin.points, thin.faces.reshape(-1, 4)[:, 1:])
    gone: list[int] = []
    for point in whole.sample(8, seed=int(rng.integers(1 << 30))):
        gone += np.argsort(np.linalg.norm(whole.triangles_center - point, axis=1))[: rng.integers(1, 5)].tolist()
    torn = raw(whole.vertices, np.delete(whole.faces, gone, axis=0))
    strays = [raw(rng.normal(size=(3, 3)) + rng.uniform(-20, 20, 3), [[0, 1, 2]]) for _ in range(3)]
    cavity = part(trimesh.creation.capsule(50.0, 7.0, count=[24, 24]).apply_translation([0, 0, -25]))
    return Soup(joined(torn, *strays), [cavity.mesh], [part(whole)], [cavity])


def messed(mesh: Mesh, rng) -> Mesh:
    """Triangles turned at random, and some of them there twice."""
    faces = np.vstack([mesh.faces, mesh.faces[rng.choice(len(mesh.faces), len(mesh.faces) // 5, replace=False)]])
    back = rng.random(len(faces)) < 0.4
    faces[back] = faces[back][:, ::-1]
    return raw(mesh.vertices, faces[rng.permutation(len(faces))])


def flipped(rng) -> Soup:
    found = overlapping(rng)
    return Soup(messed(found.body, rng), [messed(c, rng) for c in found.chambers], found.solids, found.cavities)


def inner_shells(rng) -> Soup:
    """The body's file holds the cavity with other segments than the chamber's, and overlapping parts."""
    solids, _ = spine(rng)
    solids[0] = part(trimesh.creation.box([80, 20, 20]))
    shells = []
    for sections in (20, int(rng.integers(28, 60))):
        tube = trimesh.creation.cylinder(5.0, 60.0, sections=sections)
        shells.append(tube.apply_transform(trimesh.transformations.rotation_matrix(np.pi / 2, [0, 1, 0])))
    inner = raw(shells[0].vertices, shells[0].faces[:, ::-1])
    return Soup(joined(*(s.mesh for s in solids), inner), [shells[1]], solids, [part(shells[1])])


def everything(rng) -> Soup:
    """Bellows that cross themselves, a block that overlaps them, both torn, turned and doubled."""
    found = bellows(rng)
    block = part(turned(trimesh.creation.box([16, 40, 12]), rng).apply_translation([0, 0, 4]))
    collar = part(trimesh.creation.cylinder(14.0, 14.0, sections=30).apply_translation([0, 0, 66]))
    mesh = joined(found.body, block.mesh, collar.mesh)
    mesh = raw(*trimesh.remesh.subdivide_to_size(mesh.vertices, mesh.faces, 8.0))
    mesh.merge_vertices()
    gone = rng.choice(len(mesh.faces), 6, replace=False)
    torn = raw(mesh.vertices, np.delete(mesh.faces, gone, axis=0))
    return Soup(messed(torn, rng), found.chambers, [*found.solids, block, collar], found.cavities)


KINDS = {
    "overlapping": overlapping,
    "bellows": bellows,
    "scan": scan,
    "flipped": flipped,
    "inner shells": inner_shells,
    "everything": everything,
}


def counted(found: Soup, rng) -> list[float]:
    """Volumes [mm^3] of body and chambers, by counting points."""
    points, volume = cells([s.mesh for s in found.solids], rng)
    hollow = np.logical_or.reduce([c.inside(points) for c in found.cavities])
    solid = np.logical_or.reduce([s.inside(points) for s in found.solids]) & ~hollow
    volumes = [volume * solid.mean()]
    for cavity in found.cavities:
        points, volume = cells([cavity.mesh], rng)
        volumes.append(volume * cavity.inside(points).mean())
    return volumes


def cells(meshes: list[Mesh], rng) -> tuple[np.ndarray, float]:
    """A random point in every cell of a grid over the box of some meshes, and the volume of the box [mm^3]."""
    low, high = joined(*meshes).bounds
    grid = np.stack(np.meshgrid(*[np.arange(CELLS)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    return low + (high - low) * (grid + rng.random(grid.shape)) / CELLS, float(np.prod(high - low))


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def attempt(found: Soup, units: str):
    scale = UNITS[units]
    scaled = [raw(m.vertices * scale, m.faces) for m in (found.body, *found.chambers)]
    hold = lambda x: x[:, 2] < x[:, 2].min() + 0.2 * np.ptp(x[:, 2])  # noqa: E731 - of a turned block less holds one corner
    return VolumetricRobot.from_surfaces(
        scaled[0],
        scaled[1:],
        material="dragon-skin-20-fang2022",
        fixed=hold,
        units=units,
        rescue=True,
        max_edge=6e-3,
        time_limit=3600.0,  # s: processor time alone decides, whatever else the machine does
    )


def solved(robot: VolumetricRobot) -> str:
    """Outcome at V/V0 = 1.2 and at 5 kPa."""
    solver = geosim.EnergyShapeSolver(element="p1")
    acts = [geosim.Inflation(volume_ratio=[1.2]), geosim.Inflation(pressure=[5e3])]
    return " ".join(geosim.solve(robot, act, solver=solver, throw=False).status.name for act in acts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=10, help="of each kind")
    parser.add_argument("--only", type=int, nargs="+", help="these numbers alone")
    parser.add_argument("--solve", action="store_true", help="at V/V0 = 1.2 and 5 kPa")
    parser.add_argument("--verbose", action="store_true", help="print all notices")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    print(
        f"{'soup':16s}{'unit':>5s}{'triangles':>10s}{'outcome':>9s}{'mm off':>9s}{'body %':>8s}{'chamber %':>10s}{'CPU s':>7s}"
    )
    made = total = 0
    for kind, make in KINDS.items():
        if given.kinds and kind not in given.kinds:
            continue
        for k in given.only or range(given.count):
            rng = np.random.default_rng([k, list(KINDS).index(kind)])
            found, units = make(rng), list(UNITS)[k % 3]
            start, total, said = cpu(), total + 1, ""
            head = f"{kind + f' {k}':16s}{units:>5s}{len(found.body.faces):10d}"
            try:
                robot = attempt(found, units)
            except geosim.InputError as error:
                print(f"{head}{'refused':>9s}{'':27s}{cpu() - start:7.1f}  {error}", flush=True)
                continue
            spent, made = cpu() - start, made + 1
            faces = geosim.geometry.topology.boundary_faces(robot.body_tets)
            x = robot.vertices[np.unique(faces)] * 1e3
            off = distance(x, [p.mesh for p in (*found.solids, *found.cavities)]).max()
            want = counted(found, rng)
            got = [robot.body_volume * 1e9, *(robot.chamber_volumes * 1e9)]
            share = [100 * (g / w - 1) for g, w in zip(got, want)]
            if given.solve:
                said = solved(robot)
            print(f"{head}{'robot':>9s}{off:9.2g}{share[0]:8.2f}{share[1]:10.2f}{spent:7.1f}  {said}", flush=True)
            for notice in robot.notices if given.verbose else ():
                print("     ", notice)
    print(f"{made} of {total} become robots")


if __name__ == "__main__":
    main()
