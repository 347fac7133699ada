"""CAD files as they come: fillets, chamfers, grooves, ribs, lofts, sweeps, bores, thin shells, assemblies.

    python benchmarks/cad.py table [--before]        one finger, filleted, sharp, chamfered, with needles, open through a bore
    python benchmarks/cad.py sixty [NAME ...]        twenty parts, as STL at three deflections and as STEP
    python benchmarks/cad.py tips [NAME ...] [--finer 1.5] [--distance 0.1]   their tips under 20 kPa at the three deflections
    python benchmarks/cad.py files FOLDER MAX_EDGE   every STL file and STEP solid of a folder [mm] as a body, rescued if refused
    python benchmarks/cad.py shipped                 meshes of shipped robots, remeshed and with the triangles of their files
    python benchmarks/cad.py refusals                surfaces that are no robot: what each is refused for, and in which time
    python benchmarks/cad.py cusps COUNT             a rod that touches a block along a line, meshed from so many random envelopes
    python benchmarks/cad.py seconds                 processor time of inflations to twice the volume beside the forecast

Parts are made by Open CASCADE (extra `step`); `--before` keeps the triangles (remesh = False). A row says tets of the body, the
smallest radius ratio, chamber and body volumes against the exact ones, and processor seconds with those of the mesher.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from OCP.BRepAlgoAPI import BRepAlgoAPI_Cut, BRepAlgoAPI_Fuse
from OCP.BRepBuilderAPI import BRepBuilderAPI_MakeEdge, BRepBuilderAPI_MakePolygon, BRepBuilderAPI_MakeWire
from OCP.BRepFilletAPI import BRepFilletAPI_MakeChamfer, BRepFilletAPI_MakeFillet
from OCP.BRepGProp import BRepGProp
from OCP.BRepMesh import BRepMesh_IncrementalMesh
from OCP.BRepOffsetAPI import BRepOffsetAPI_ThruSections
from OCP.BRepPrimAPI import BRepPrimAPI_MakeBox, BRepPrimAPI_MakeCylinder, BRepPrimAPI_MakeTorus
from OCP.gp import gp_Ax2, gp_Circ, gp_Dir, gp_Pnt
from OCP.GProp import GProp_GProps
from OCP.IFSelect import IFSelect_RetDone
from OCP.STEPControl import STEPControl_AsIs, STEPControl_Writer
from OCP.StlAPI import StlAPI_Writer
from OCP.TopAbs import TopAbs_EDGE
from OCP.TopExp import TopExp_Explorer
from OCP.TopoDS import TopoDS
from pinned import ECOFLEX_00_30

import geosim
from geosim import VolumetricRobot
from geosim.files.robot import load_problem
from geosim.geometry.child import Allowance, cpu_seconds, run_mesher
from geosim.geometry.forecast import solve_seconds
from geosim.geometry.quality import mesh_quality

SIZE = (89.0, 22.0, 18.0)  # mm
DEFLECTIONS = (0.1, 0.03, 0.01)  # mm, with angles of 0.5, 0.3 and 0.15 rad
ANGLES = (0.5, 0.3, 0.15)
MANY_SOLIDS = 3  # of an assembly: so many are tried
MESHES = Path(__file__).parents[1] / "meshes"
Shape = Any
FORETOLD: list[float] = []  # tets, by the last mesh


class Forecasts(logging.Handler):
    """Keeps what the mesher foretells."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the number of a line that foretells one."""
        if "about %.2g tets" in str(record.msg) and isinstance(record.args, tuple):
            FORETOLD.append(float(record.args[1]))  # type: ignore[arg-type]


def box(low, high, fillet: float = 0.0, chamfer: float = 0.0) -> Shape:
    solid = BRepPrimAPI_MakeBox(gp_Pnt(*low), gp_Pnt(*high)).Shape()
    if not fillet and not chamfer:
        return solid
    made = BRepFilletAPI_MakeFillet(solid) if fillet else BRepFilletAPI_MakeChamfer(solid)
    edges = TopExp_Explorer(solid, TopAbs_EDGE)
    seen: list[Any] = []
    while edges.More():
        edge = TopoDS.Edge(edges.Current())
        if not any(edge.IsSame(other) for other in seen):
            made.Add(fillet or chamfer, edge)
            seen.append(edge)
        edges.Next()
    return made.Shape()


def cylinder(at, way, radius: float, height: float) -> Shape:
    return BRepPrimAPI_MakeCylinder(gp_Ax2(gp_Pnt(*at), gp_Dir(*way)), radius, height).Shape()


def torus(at, way, major: float, minor: float) -> Shape:
    return BRepPrimAPI_MakeTorus(gp_Ax2(gp_Pnt(*at), gp_Dir(*way)), major, minor).Shape()


def cut(solid: Shape, *tools: Shape) -> Shape:
    for tool in tools:
        solid = BRepAlgoAPI_Cut(solid, tool).Shape()
    return solid


def fused(solid: Shape, *tools: Shape) -> Shape:
    for tool in tools:
        solid = BRepAlgoAPI_Fuse(solid, tool).Shape()
    return solid


def loft(*sections: list[tuple[float, float, float]]) -> Shape:
    made = BRepOffsetAPI_ThruSections(True, False)
    for points in sections:
        polygon = BRepBuilderAPI_MakePolygon()
        for p in points:
            polygon.Add(gp_Pnt(*p))
        polygon.Close()
        made.AddWire(polygon.Wire())
    return made.Shape()


def lofted_circles(*circles: tuple[float, float]) -> Shape:
    """A solid of revolution-like sections: radius at each place along x."""
    made = BRepOffsetAPI_ThruSections(True, False)
    for x, radius in circles:
        circle = gp_Circ(gp_Ax2(gp_Pnt(x, 11, 9), gp_Dir(1, 0, 0)), radius)
        made.AddWire(BRepBuilderAPI_MakeWire(BRepBuilderAPI_MakeEdge(circle).Edge()).Wire())
    return made.Shape()


def volume(solid: Shape) -> float:
    found = GProp_GProps()
    BRepGProp.VolumeProperties_s(solid, found)
    return abs(found.Mass())


def stl(solid: Shape, path: Path, deflection: float, angle: float) -> Path:
    BRepMesh_IncrementalMesh(solid, deflection, False, angle, True)
    writer = StlAPI_Writer()
    writer.ASCIIMode = False
    writer.Write(solid, str(path))
    return path


def step(solid: Shape, path: Path) -> Path:
    writer = STEPControl_Writer()
    writer.Transfer(solid, STEPControl_AsIs)
    if writer.Write(str(path)) != IFSelect_RetDone:
        raise RuntimeError(f"{path} could not be written")
    return path


def two_chambers(fillet: float = 0.0, chamfer: float = 0.0) -> list[Shape]:
    return [box((8, 3, z), (81, 19, z + 4.5), fillet, chamfer) for z in (2.25, 11.25)]


def one_chamber(fillet: float = 0.0) -> Shape:
    return box((8, 3, 6), (81, 19, 12), fillet)


# name: bodies, chambers (solids of their own, or "cavities"), max_edge [mm], options
Part = tuple[list[Shape], "list[Shape] | str", float, dict[str, Any]]


def parts() -> dict[str, Callable[[], Part]]:
    block = box((0, 0, 0), SIZE)

    def fillets(outside: float, inside: float) -> Part:
        return [box((0, 0, 0), SIZE, outside)], two_chambers(inside), 6.0, {}

    def grooves(minor: float) -> Part:
        rod = cylinder((0, 11, 9), (1, 0, 0), 10.0, 89.0)
        rings = [torus((x, 11, 9), (1, 0, 0), 10.0, minor) for x in np.arange(6.0, 84.0, 4.0 * minor)]
        return [cut(rod, *rings)], [cylinder((8, 11, 9), (1, 0, 0), 5.0, 73.0)], 6.0, {}

    def text() -> Part:
        strokes = [box((10 + 6 * k, 5, 17.5), (11 + 6 * k, 15, 18.5)) for k in range(8)]
        strokes += [box((10 + 6 * k, 5 + 4 * (k % 3), 17.5), (14 + 6 * k, 6 + 4 * (k % 3), 18.5)) for k in range(8)]
        return [cut(block, *strokes)], [one_chamber(1.0)], 6.0, {}

    def ribs(fillet: float) -> Part:
        ridges = [box((8 + 9 * k, 0, 17), (12 + 9 * k, 22, 24), fillet) for k in range(8)]
        return [fused(block, *ridges)], [one_chamber(1.0)], 6.0, {}

    def sweep() -> Part:
        rings = [torus((15 + 12 * k, 11, 9), (1, 0, 0), 6.0, 1.5) for k in range(5)]
        return [box((0, 0, 0), SIZE, 1.0)], [fused(cylinder((8, 11, 9), (1, 0, 0), 5.0, 73.0), *rings)], 6.0, {}

    def taper() -> Part:
        ends = [
            [(x, 11 - w, 9 - h), (x, 11 + w, 9 - h), (x, 11 + w, 9 + h), (x, 11 - w, 9 + h)]
            for x, w, h in ((0, 11, 9), (89, 7, 6))
        ]
        return [loft(*ends)], [box((8, 6, 6), (81, 16, 12), 1.0)], 6.0, {}

    def bulb() -> Part:
        return (
            [lofted_circles((0, 9), (30, 11), (60, 8), (89, 7))],
            [lofted_circles((6, 5), (30, 8), (60, 5), (83, 4))],
            6.0,
            {},
        )

    def bored(*tools: Shape) -> Part:
        return [cut(block, one_chamber(1.0), *tools)], "cavities", 6.0, {"inlet": "close"}

    def shell(fillet: float) -> Part:
        return [box((0, 0, 0), (60, 20, 20), fillet)], [box((1, 1, 1), (59, 19, 19), max(fillet - 1.0, 0.0))], 4.0, {}

    def layered(fillet: float) -> Part:
        low, high = box((0, 0, 0), (89, 22, 6)), box((0, 0, 6), SIZE)
        return [high, low], [box((8, 3, 8), (81, 19, 15), fillet)], 6.0, {}

    return {
        "fillet-0.3": lambda: fillets(0.3, 0.3),
        "fillet-0.5": lambda: fillets(0.5, 0.5),
        "fillet-1": lambda: fillets(1.0, 1.0),
        "fillet-2": lambda: fillets(2.0, 2.0),
        "fillet-3-outside": lambda: fillets(3.0, 0.5),
        "chamfer-0.5": lambda: ([box((0, 0, 0), SIZE, chamfer=0.5)], two_chambers(chamfer=0.5), 6.0, {}),
        "chamfer-1.5": lambda: ([box((0, 0, 0), SIZE, chamfer=1.5)], two_chambers(chamfer=1.5), 6.0, {}),
        "thread-1": lambda: grooves(1.0),
        "thread-0.5": lambda: grooves(0.5),
        "text": text,
        "ribs": lambda: ribs(0.0),
        "ribs-fillet-1": lambda: ribs(1.0),
        "sweep": sweep,
        "loft": taper,
        "bulb": bulb,
        "bore-2": lambda: bored(cylinder((80, 11, 9), (1, 0, 0), 1.0, 20.0)),
        "bores-2-and-3": lambda: bored(
            cylinder((80, 11, 9), (1, 0, 0), 1.0, 20.0), cylinder((40, 11, 11), (0, 0, 1), 1.5, 20.0)
        ),
        "shell-1": lambda: shell(0.0),
        "shell-1-fillet-2": lambda: shell(2.0),
        "layers": lambda: layered(1.0),
    }


def needles(solid: Shape, count: int, seed: int = 0) -> trimesh.Trimesh:
    """A finely cut body with vertices 0.004 mm off edges, as slicers and Boolean operations leave them [mm]."""
    with tempfile.TemporaryDirectory() as folder:
        mesh = trimesh.load_mesh(stl(solid, Path(folder, "a.stl"), 0.02, 0.1))
    vertices, faces = np.array(mesh.vertices), np.array(mesh.faces)
    chosen = np.random.default_rng(seed).choice(len(faces), min(count, len(faces)), replace=False)
    more, extra = [], []
    for f in chosen:
        a, b, c = faces[f]
        middle = 0.5 * (vertices[a] + vertices[b])
        way = vertices[c] - middle
        more.append(middle + 0.004 * way / np.linalg.norm(way))
        new = len(vertices) + len(more) - 1
        extra += [(b, c, new), (c, a, new)]
        faces[f] = (a, b, new)
    return trimesh.Trimesh(np.vstack([vertices, more]), np.vstack([faces, extra]), process=False)


def row(
    name: str, body: Any, chambers: Any, edge: float, exact: list[float] | None, **options: Any
) -> VolumetricRobot | None:
    clock, wall = cpu_seconds(), time.perf_counter()
    FORETOLD.clear()
    try:
        robot = VolumetricRobot.from_surfaces(
            body, chambers, material=options.pop("material", ECOFLEX_00_30), fixed=lambda x: x[:, 0] <= x[:, 0].min() + 1e-4,
            max_edge=1e-3 * edge, **options,
        )  # fmt: skip
    except geosim.InputError as error:
        print(f"{name:34s} REFUSED in {cpu_seconds() - clock:.1f} CPU s: {error}")
        return None
    used = cpu_seconds() - clock
    quality = mesh_quality(robot.vertices, robot.body_tets)
    off = ""
    if exact is not None:
        got = [robot.body_volume * 1e9, *(robot.chamber_volumes * 1e9)]
        off = ", ".join(f"{100 * (g / e - 1):+.2f}" for g, e in zip(got, exact))
    times = len(robot.tets) / FORETOLD[-1] if FORETOLD else 1.0
    print(
        f"{name:34s} {quality.tets:7d} tets ({times:.1f} times the forecast), "
        f"radius ratio {quality.radius_ratio_min:.3f}, volumes % [{off}], {used:.1f} CPU s, "
        f"{time.perf_counter() - wall:.1f} s",
        flush=True,
    )
    return robot


def exact_volumes(bodies: list[Shape], chambers: list[Shape] | str) -> list[float] | None:
    if isinstance(chambers, str):
        return None
    inner = [volume(c) for c in chambers]
    return [sum(volume(b) for b in bodies) - sum(inner), *inner]


def table(before: bool) -> None:
    options = {"remesh": not before, "units": "mm"}
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for name, inside in (("sharp", {}), ("chamfer 1", {"chamfer": 1.0}), ("fillet 1", {"fillet": 1.0})):
            body, hollows = box((0, 0, 0), SIZE), two_chambers(**inside)
            exact = exact_volumes([body], hollows)
            files = [stl(s, here / f"{name}-{i}.stl", 0.1, 0.5) for i, s in enumerate([body, *hollows])]
            row(f"finger, {name}, STL", files[0], files[1:], 6.0, exact, **options)
            if name == "fillet 1":
                files = [step(s, here / f"{name}-{i}.step") for i, s in enumerate([body, *hollows])]
                row(f"finger, {name}, STEP", files[0], files[1:], 6.0, exact, **options)
        rough = needles(box((0, 0, 0), SIZE, 2.0), 1500)
        row("finger, needles of 0.004 mm", rough, [needles(one_chamber(1.0), 500)], 6.0, None, **options)
        bored = stl(parts()["bore-2"]()[0][0], here / "bored.stl", 0.1, 0.5)
        exact = [volume(box((0, 0, 0), SIZE)) - volume(one_chamber(1.0)), volume(one_chamber(1.0))]
        row("finger, open through a bore", bored, "cavities", 6.0, exact, inlet="close", **options)


def sixty(names: list[str]) -> None:
    made = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in parts().items():
            if names and name not in names:
                continue
            bodies, chambers, edge, options = make()
            exact = exact_volumes(bodies, chambers)
            for how in (*range(len(DEFLECTIONS)), "STEP"):

                def write(solid: Shape, label: str, how: Any = how, name: str = name) -> Path:
                    if how == "STEP":
                        return step(solid, Path(folder, f"{name}-{label}.step"))
                    return stl(solid, Path(folder, f"{name}-{label}-{how}.stl"), DEFLECTIONS[how], ANGLES[how])

                files = [write(solid, f"body{i}") for i, solid in enumerate(bodies)]
                inner = (
                    chambers if isinstance(chambers, str) else [write(c, f"chamber{i}") for i, c in enumerate(chambers)]
                )
                title = f"{name}, {how if how == 'STEP' else f'{DEFLECTIONS[how]} mm'}"
                robot = row(title, files if len(files) > 1 else files[0], inner, edge, exact, units="mm", **options)
                made, total = made + (robot is not None), total + 1
    print(f"{made} of {total} mesh")


def tips(names: list[str], finer: float, pressure: float, distance: float | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, make in parts().items():
            if names and name not in names:
                continue
            bodies, chambers, edge, options = make()
            options = options if distance is None else {**options, "remesh": {"distance": 1e-3 * distance}}
            found, grown = [], []
            for how, (deflection, angle) in enumerate(zip(DEFLECTIONS, ANGLES)):
                files = [stl(s, Path(folder, f"{name}-{i}-{how}.stl"), deflection, angle) for i, s in enumerate(bodies)]
                inner: Any = chambers
                if not isinstance(chambers, str):
                    inner = [
                        stl(s, Path(folder, f"{name}-c{i}-{how}.stl"), deflection, angle)
                        for i, s in enumerate(chambers)
                    ]
                robot = row(
                    f"{name}, {deflection} mm",
                    files if len(files) > 1 else files[0],
                    inner,
                    edge / finer,
                    None,
                    units="mm",
                    **options,
                )
                if robot is None:
                    break
                pressures = [pressure] + [0.0] * (robot.chambers - 1)
                result = geosim.solve(robot, geosim.Inflation(pressure=[pressures]))
                found.append(result.tip[-1] - robot.tip_weights @ robot.vertices[robot.tip])
                grown.append(float(result.volume_ratios[-1, 0]))
                most = float(np.linalg.norm(result.frames[-1] - robot.vertices, axis=1)[robot.body_vertices].max())
            if len(found) == len(DEFLECTIONS):
                way = np.linalg.norm(found[-1])
                off = [100 * np.linalg.norm(tip - found[-1]) for tip in found[:-1]]
                print(
                    f"{name:34s} tip moves {1e3 * way:.3f} mm, the body {1e3 * most:.3f} mm; tips "
                    f"{', '.join(f'{o / way:.2f} %' for o in off)} off the finest, of the body's way "
                    f"{', '.join(f'{o / most:.2f} %' for o in off)}; the chamber takes {grown[-1]:.3f} of its volume, "
                    f"{', '.join(f'{100 * (g / grown[-1] - 1):+.2f} %' for g in grown[:-1])}",
                    flush=True,
                )


def files(folder: Path, edge: float) -> None:
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".stl", ".step", ".stp")):
        name = str(path.relative_to(folder))[-34:]
        with contextlib.suppress(geosim.InputError):
            solids = [""]
            if path.suffix.lower() != ".stl":
                given = {"engine": "Open CASCADE", "path": str(path), "deflection": -0.01, "angle": 1.0, "loss": 1.0}
                found = run_mesher(given, Allowance.of(60.0), name)
                solids = [f"#{k + 1}" for k in range(len(found["names"]))] if isinstance(found, dict) else solids
        for solid in solids[:MANY_SOLIDS]:
            if row(f"{name}{solid}", f"{path}{solid}", (), edge, None, units="mm") is None:
                row("    with rescue", f"{path}{solid}", (), edge, None, units="mm", rescue=True)
        if len(solids) > MANY_SOLIDS:
            print(f"    {len(solids) - MANY_SOLIDS} more solids")


def shipped() -> None:
    for file in sorted(MESHES.glob("*/robot.toml")):
        text = file.read_text(encoding="utf-8")
        if "surface" not in text:
            continue
        for how in ("false", "true"):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copytree(file.parent, folder, dirs_exist_ok=True)
                changed = "\n".join(line for line in text.splitlines() if not line.startswith("remesh"))
                Path(folder, "robot.toml").write_text(f"remesh = {how}\n{changed}\n", encoding="utf-8")
                clock = cpu_seconds()
                try:
                    robot, _, _ = load_problem(Path(folder, "robot.toml"))
                except geosim.InputError as error:
                    print(f"{file.parent.name:24s} remesh = {how:5s} REFUSED: {error}", flush=True)
                    continue
            print(
                f"{file.parent.name:24s} remesh = {how:5s} {mesh_quality(robot.vertices, robot.body_tets)}, "
                f"{cpu_seconds() - clock:.1f} CPU s",
                flush=True,
            )


def joined(*meshes: trimesh.Trimesh) -> trimesh.Trimesh:
    return trimesh.util.concatenate(list(meshes))


def moved(mesh: trimesh.Trimesh, *way: float) -> trimesh.Trimesh:
    return mesh.copy().apply_translation(way)


def moebius(segments: int = 60, radius: float = 20.0, width: float = 8.0) -> trimesh.Trimesh:
    turn = np.linspace(0.0, 2.0 * np.pi, segments, endpoint=False)
    half = 0.5 * width * np.array([[-1.0], [1.0]])
    out = np.cos(0.5 * turn) * half + radius
    points = np.stack([out * np.cos(turn), out * np.sin(turn), np.sin(0.5 * turn) * half], axis=-1)
    ids, after = np.arange(segments), (np.arange(segments) + 1) % segments
    last = after == 0  # where the strip comes round its other side is up
    low, high = np.where(last, segments + after, after), np.where(last, after, segments + after)
    faces = np.vstack([np.stack([ids, low, high], 1), np.stack([ids, high, segments + ids], 1)])
    return trimesh.Trimesh(points.reshape(-1, 3), faces, process=False)


def unsound() -> dict[str, tuple[Any, Any]]:
    """Bodies and chambers [mm] that are no robot, by the fault."""
    rng = np.random.default_rng(0)
    block = trimesh.creation.box(SIZE)
    fine = trimesh.Trimesh(*trimesh.remesh.subdivide_to_size(block.vertices, block.faces, 4.0))
    ball = trimesh.creation.icosphere(3, 12.0)
    sheet = trimesh.Trimesh(fine.vertices, fine.faces[fine.triangles_center[:, 2] > SIZE[2] / 2 - 1e-6], process=False)
    crossing = joined(sheet, sheet.copy().apply_transform(trimesh.transformations.rotation_matrix(0.3, (1, 0, 0))))
    half = trimesh.Trimesh(fine.vertices, fine.faces[fine.triangles_center[:, 0] < 0.0], process=False)
    dust = joined(*(moved(trimesh.creation.icosphere(0, 0.05), *rng.uniform(-40, 40, 3)) for _ in range(2000)))
    soup = trimesh.Trimesh(rng.uniform(-30, 30, (900, 3)), np.arange(900).reshape(-1, 3), process=False)
    inside_out = block.copy()
    inside_out.invert()
    shaken = fine.copy()
    shaken.vertices += rng.normal(0.0, 2.0, shaken.vertices.shape)
    spike = ball.copy()
    spike.vertices[0] *= -1.5
    thin = trimesh.creation.box((85.0, 18.0, 17.996))
    flat = trimesh.Trimesh(
        np.array([(0, 0, 0), (80, 0, 0), (0, 20, 0), (0, 0, 0)]), [(0, 1, 2), (0, 2, 1)], process=False
    )
    long_bore = trimesh.creation.cylinder(4.0, 200.0)
    return {
        "sheets that cross": (crossing, []),
        "an open sheet": (sheet, []),
        "an open half": (half, []),
        "half of a chamber open": (block, [trimesh.Trimesh(half.vertices * 0.5, half.faces, process=False)]),
        "walls of 0.002 mm round a chamber": (block, [thin]),
        "a plate of 0.0001 mm": (trimesh.creation.box((89.0, 22.0, 1e-4)), []),
        "dust of 2000 balls": (dust, []),
        "triangles at random": (soup, []),
        "a Moebius strip": (moebius(), []),
        "a Klein fold, each vertex shaken by 2 mm": (shaken, []),
        "a vertex pulled through the body": (spike, []),
        "the body twice": (joined(block, block), []),
        "the body in itself": ([block, block], []),
        "a duplicate nested by 0.0005 mm": (joined(block, block.copy().apply_scale(0.99998)), []),
        "a solid without volume": (flat, []),
        "a shell inside out": (inside_out, []),
        "a chamber inside out": (block, [moved(trimesh.creation.box((40.0, 10.0, 8.0)), 0, 0, 0)]),
        "a chamber outside": (block, [moved(ball, 0, 40, 0)]),
        "a chamber through the skin": (block, [moved(ball, 40, 0, 0)]),
        "a chamber twice": (block, [ball.copy().apply_scale(0.5)] * 2),
        "no cavity": (block, "cavities"),
        "a pipe open at both ends": (trimesh.boolean.difference([block, long_bore.apply_transform(
            trimesh.geometry.align_vectors((0, 0, 1), (1, 0, 0)))]), "cavities"),
        "two bodies that overlap": ([block, moved(block, 10, 5, 3)], []),
        "no triangle": (trimesh.Trimesh(np.zeros((3, 3)), [(0, 1, 2)], process=False), []),
    }  # fmt: skip


def refusals(names: list[str]) -> None:
    worst = 0.0
    for name, (body, chambers) in unsound().items():
        if names and name not in names:
            continue
        for rescue in (False, True):
            clock = cpu_seconds()
            row(f"{name}{', rescued' * rescue}", body, chambers, 6.0, None, units="mm", rescue=rescue)
            worst = max(worst, cpu_seconds() - clock)
    print(f"at most {worst:.1f} CPU s")


def cusps(count: int) -> None:
    """Two cusps, as fillets leave them where they run out, and a neck of 0.04 mm between them."""
    rod = trimesh.creation.cylinder(2.0, 40.0, sections=256)
    rod.apply_transform(trimesh.geometry.align_vectors((0, 0, 1), (1, 0, 0)))
    block = moved(trimesh.creation.box((50.0, 20.0, 12.0)), 25.0, 10.0, 6.0)
    body = trimesh.boolean.union([block, moved(rod, 25.0, 10.0, 13.9999)])
    for k in range(count):
        row(f"cusps, envelope {k + 1}", body, (), 5.0, [body.volume], units="mm")


def seconds() -> None:
    with tempfile.TemporaryDirectory() as folder:
        inputs = [box((0, 0, 0), (50, 20, 12)), box((6, 4, 3), (44, 16, 9), 1.0)]
        files = [stl(s, Path(folder, f"{i}.stl"), 0.1, 0.5) for i, s in enumerate(inputs)]
        for edge in (6.0, 3.2, 2.2, 1.7):
            robot = row(f"finger, max_edge {edge} mm", files[0], files[1:], edge, None, units="mm")
            assert robot is not None
            clock = time.process_time()
            result = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.5, 2.0]))
            used = time.process_time() - clock
            print(
                f"    {used:.1f} CPU s ({solve_seconds(len(robot.tets)):.1f} foretold), {result.status[-1]}", flush=True
            )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("what", choices=["table", "sixty", "tips", "files", "shipped", "refusals", "cusps", "seconds"])
    asked.add_argument("names", nargs="*")
    asked.add_argument("--before", action="store_true")
    asked.add_argument("--finer", type=float, default=1.0, help="tips: divides max_edge")
    asked.add_argument("--pressure", type=float, default=20e3, help="tips: of the first chamber [Pa]")
    asked.add_argument("--distance", type=float, help="tips: how far surfaces may move [mm]")
    given = asked.parse_args()
    logging.getLogger("geosim.mesh").addHandler(Forecasts())
    logging.getLogger("geosim.mesh").setLevel(logging.INFO)
    if given.what == "table":
        table(given.before)
    elif given.what == "files":
        files(Path(given.names[0]), float(given.names[1]))
    elif given.what in ("shipped", "seconds"):
        shipped() if given.what == "shipped" else seconds()
    elif given.what == "cusps":
        cusps(int(given.names[0]))
    elif given.what == "refusals":
        refusals(given.names)
    elif given.what == "tips":
        tips(given.names, given.finer, given.pressure, given.distance)
    else:
        sixty(given.names)
