"""The cases of [Fang2022] with the projective solver, on the robots that geosim ships: figures 7 to 12 and Table I.

    python benchmarks/projective_cases.py twister    [--out DIR]   Fig. 7: the shipped twister to V/V0 = 115 in one command
    python benchmarks/projective_cases.py sections   [--out DIR]   the same of slots of three sections, beside the energy solver
    python benchmarks/projective_cases.py finger     [--out DIR]   Fig. 9, 10: bellows with and without collision response
    python benchmarks/projective_cases.py wrap       [--out DIR]   Fig. 11: fingers of two materials against a round obstacle
    python benchmarks/projective_cases.py twine      [--out DIR]   Fig. 8: the shipped twiner round a rod, both solvers
    python benchmarks/projective_cases.py membrane   [--out DIR]   Fig. 12: against the energy solver, without contact
    python benchmarks/projective_cases.py table [--threads N]      Table I: tets and seconds beside the paper's
    python benchmarks/projective_cases.py anderson                 Fig. 5: accelerations of one step on four robots
    python benchmarks/projective_cases.py initial                  as a start of the energy solver, and beside its preview
    python benchmarks/projective_cases.py small                    previews of small meshes, beside linear elements
    python benchmarks/projective_cases.py authors --models DIR     the paper's own finger beside shapes that its authors computed
    python benchmarks/projective_cases.py published --models DIR   the paper's own twister to its volumes
    python benchmarks/projective_cases.py all        [--out DIR]   all of them

Every line printed is a measurement; pictures go to DIR (default: none).
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import trimesh

import geosim
from geosim.collision.queries import closest_points, vertices_in_tets
from geosim.collision.shapes import signed_distances
from geosim.collision.tree import build_tree
from geosim.geometry import topology
from geosim.shape.projective import relaxation

MESHES = Path(__file__).resolve().parents[1] / "meshes"
PAPER = {
    "bellows": (79_048, 3.54, 0.07, 4.38, 7.46),
    "twister": (28_198, 2.81, 0.03, 1.71, 3.54),
    "membrane": (34_680, 0.96, 0.12, 1.63, 3.83),
}
MOST_ITERATIONS = 30_000  # of one step, in the comparison of accelerations; one that needs more has four tries
ECOFLEX, DRAGON = geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3), geosim.MooneyRivlin(c1=119e3, c2=23e3)


def robot(name: str) -> geosim.VolumetricRobot:
    """One of the shipped robots."""
    return geosim.load_robot(MESHES / name / "robot.toml")


def solve(body, ratios, environment=None, **options):
    """Solve with the projective solver; return the result, also where it stopped early."""
    return geosim.solve(
        body,
        geosim.Inflation(volume_ratio=ratios),
        environment,
        throw=False,
        solver=geosim.ProjectiveShapeSolver(**options),
    )


def report(title: str, result, seconds: float) -> None:
    """One line for every frame."""
    print(
        f"{title}: {result.status.name}, {len(result.frames)} frames, {seconds:.0f} CPU s. {result.message}", flush=True
    )
    for i in range(len(result.frames)):
        records = [r for r in result.trace if r["frame"] == i]
        estimate = result.extra["energy_residual"][i]
        pressures = np.round(result.chamber_pressures[i] / 1e3, 2)
        print(
            f"  V/V0 {np.round(result.volume_ratios[i], 4)} P {pressures} kPa, body volume "
            f"{result.body_volume_ratio[i]:.4f}, |J - 1| 95 % {result.extra['jacobian_spread'][i]:.3f}, inverted "
            f"{result.inverted_elements[i]:.0f}, remeshings {result.extra['remeshings'][i]:.0f}, residual "
            f"{result.residual[i]:.1e}, energy residual {estimate:.2f}, crossings {result.crossings[i]:.0f}, vertices inside "
            f"{inside(result, i)}, contacts {result.contact_count[i]:.0f}, iterations "
            f"{sum('iteration' in r for r in records)}",
            flush=True,
        )


def inside(result, i: int) -> int:
    """Vertices of surfaces inside a foreign tet or an obstacle in a frame."""
    body, x = result.robot, np.ascontiguousarray(result.frames[i])
    ids = np.setdiff1d(np.unique(np.vstack([body.skin, *body.chamber_walls])), body.fixed)
    bad = vertices_in_tets(x, ids, build_tree(x, body.body_tets)) >= 0
    for obstacle in result.environment.obstacles:
        bad |= signed_distances(obstacle.solid, x[ids])[0] < 0
    return int(bad.sum())


def cpu() -> float:
    """CPU seconds of this process and of those that it started."""
    return sum(os.times()[:4])


def timed(action):
    """Result of an action and its CPU seconds."""
    clock = cpu()
    result = action()
    return result, cpu() - clock


def picture(result, out: Path | None, name: str) -> None:
    """Save a picture of the last frame."""
    if out is not None and len(result.frames):
        result.plot(out / f"{name}.png")


def steps(title: str, body, ratios, environment, **options):
    """Yield V/V0 and the result of one step after the other, each from the last, as far as they are reached."""
    result = None
    for ratio in ratios:
        act, solver = geosim.Inflation(volume_ratio=ratio), geosim.ProjectiveShapeSolver(**options)
        result, seconds = timed(
            lambda begin=result, act=act, solver=solver: geosim.solve(
                body, act, environment, throw=False, initial=begin, solver=solver
            )
        )
        report(title, result, seconds)
        if not len(result.frames):
            return
        yield ratio, result


def judged(title: str, result, seconds: float) -> None:
    """One line for every frame: volumes of body and of single tets, what is inverted and crosses, iterations, seconds."""
    body, rows = result.robot, [r for r in result.trace if "iteration" in r]
    print(
        f"{title}: {len(body.body_tets)} body tets, {result.status.name}, {len(rows)} iterations, {seconds:.1f} CPU s. "
        f"{result.message}",
        flush=True,
    )
    for i, x in enumerate(result.frames):
        J = np.linalg.det(x[body.body_tets[:, 1:]] - x[body.body_tets[:, :1]])
        J /= np.linalg.det(body.vertices[body.body_tets[:, 1:]] - body.vertices[body.body_tets[:, :1]])
        mine = [r for r in rows if r["frame"] == i]
        print(
            f"  V/V0 {result.volume_ratios[i, 0]:.4f}, {result.chamber_pressures[i, 0] / 1e3:.1f} kPa, body volume "
            f"{result.body_volume_ratio[i]:.4f}, J {J.min():.3f} .. {J.max():.2f}, {(J < 0.5).sum()} below 0.5, inverted "
            f"{(J <= 0).sum()}, crossings {result.crossings[i]:.0f}, contacts {result.contact_count[i]:.0f}, iterations "
            f"{len(mine)}, remeshings {result.extra['remeshings'][i]:.0f}",
            flush=True,
        )


def twister(out: Path | None) -> None:
    """Fig. 7: the shipped twister and its refinement to V/V0 = 115 with contact, each from one command; frames for pictures."""
    body = robot("twister")
    for title, made in (("shipped", body), ("refined", body.remesh(max_edge=1.8e-3))):
        result, seconds = timed(lambda made=made: solve(made, 115.0, error_estimate=False))
        judged(f"twister, {title}, one command", result, seconds)
    if out is not None:
        for ratio, far in steps("twister", body, (5.0, 28.0, 60.0, 115.0), None, error_estimate=False):
            picture(far, out, f"twister-{ratio:g}")


def wound(section: np.ndarray, turns: float = 0.8, length: float = 0.06, radius: float = 5.5e-3) -> trimesh.Trimesh:
    """Closed tube of a section (k, 2) [m], its first axis along the radius, that winds about the x axis."""
    span, end = length - 0.01, 0.005
    s = np.linspace(0.0, 1.0, round(np.hypot(span, 2 * np.pi * turns * radius) / 2.5e-3) + 1)
    angle, n, k = 2 * np.pi * turns * s, len(s), len(section)
    path = np.stack([end + span * s, radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    out = np.stack([0 * s, np.cos(angle), np.sin(angle)], axis=1)
    along = np.stack([span + 0 * s, *(2 * np.pi * turns * radius * np.array([-np.sin(angle), np.cos(angle)]))], axis=1)
    side = np.cross(along, out)
    side /= np.linalg.norm(side, axis=1)[:, None]
    rings = path[:, None] + section[:, :1] * out[:, None] + section[:, 1:] * side[:, None]
    first, after = np.arange(k), np.roll(np.arange(k), -1)
    faces = [[np.full(k, n * k), after, first], [np.full(k, n * k + 1), first + (n - 1) * k, after + (n - 1) * k]]
    for i in range(n - 1):
        a, b, c, d = first + i * k, after + i * k, first + (i + 1) * k, after + (i + 1) * k
        faces += [[a, b, d], [a, d, c]]
    triangles = np.concatenate([np.stack(f, axis=1) for f in faces])
    mesh = trimesh.Trimesh(np.vstack([rings.reshape(-1, 3), path[0], path[-1]]), triangles, process=False)
    mesh.fix_normals()
    return mesh


def slotted(name: str, max_edge: float = 6e-3) -> geosim.VolumetricRobot:
    """A cylinder of 20 x 60 mm with a chamber of 2 % of its volume, of a section that is a slot, a square or a star."""
    along = np.linspace(-1.0, 1.0, 5)
    lens = np.stack([along, 0.1 * (1.0 - along * along)], axis=1)
    corner, angle = np.linspace(-1.0, 1.0, 3)[:-1], 2 * np.pi * np.arange(10) / 10
    edge = np.stack([corner, -np.ones(2)], axis=1)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    sections = {
        "slot": np.vstack([lens, lens[-2:0:-1] * [1.0, -1.0]]),
        "square": np.vstack([edge, edge @ turn, edge @ turn @ turn, edge @ turn @ turn @ turn]),
        "star": np.where(np.arange(10) % 2, 0.45, 1.0)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1),
    }
    size, wanted = {"slot": 2.6e-3, "square": 1e-3, "star": 1.5e-3}[name], 0.02 * np.pi * 0.01**2 * 0.06
    flat = [1.0, 1.0]
    for _ in range(6):  # a slot keeps its height and gets thinner, the others stay alike
        rate = wanted / abs(float(wound(size * np.array(flat) * sections[name]).volume))
        size, flat = (size, [1.0, flat[1] * rate]) if name == "slot" else (size * rate**0.5, flat)
    axis = np.linspace(0.0, 0.06, 16)[:, None] * [1.0, 0.0, 0.0]
    chamber = wound(size * np.array(flat) * sections[name])
    return geosim.VolumetricRobot.from_surfaces(
        tube(axis, 0.01, 20),
        [chamber],
        material="ecoflex-00-30-fang2022",
        fixed=lambda v: v[:, 0] < 1e-4,
        tip=lambda v: v[:, 0] > 0.06 - 1e-4,
        max_edge=max_edge,
    )


def sections(out: Path | None) -> None:
    """Slots of three sections on three meshes to V/V0 = 115, with contact; and to 5 beside the energy solver, without."""
    alone, asked = geosim.Environment(self_contact=False), geosim.Inflation(volume_ratio=[2.0, 5.0])
    for name in ("slot", "square", "star"):
        for edge in (10e-3, 3.5e-3, 6e-3):
            body = slotted(name, edge)
            result, seconds = timed(lambda body=body: solve(body, 115.0, error_estimate=False))
            judged(f"{name}, edges of {edge * 1e3:g} mm, one command", result, seconds)
        for ratio, far in steps(name, body, (5.0, 28.0, 60.0, 115.0), None, error_estimate=False) if out else ():
            picture(far, out, f"section-{name}-{ratio:g}")
        mine, _ = timed(lambda body=body: solve(body, [2.0, 5.0], alone, error_estimate=False))
        theirs, seconds = timed(lambda body=body: geosim.solve(body, asked, alone, throw=False))
        print(f"  energy solver: {theirs.status.name}, {len(theirs.frames)} frames, {seconds:.1f} CPU s", flush=True)
        for i in range(min(len(mine.frames), len(theirs.frames))):
            apart = np.linalg.norm(mine.frames[i] - theirs.frames[i], axis=1)[np.unique(body.skin)] * 1e3
            moved = np.linalg.norm(theirs.frames[i] - body.vertices, axis=1)[np.unique(body.skin)].max() * 1e3
            p, q = mine.chamber_pressures[i, 0], theirs.chamber_pressures[i, 0]
            print(
                f"  V/V0 {mine.volume_ratios[i, 0]:.2f}: skins apart by {apart.mean():.2f} mm in the mean, {apart.max():.2f} at "
                f"most, where the skin moves up to {moved:.1f}; pressure {p / 1e3:.1f} for {q / 1e3:.1f} kPa, "
                f"{100 * (p / q - 1):+.0f} %",
                flush=True,
            )


def published_shape(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [mm] and tets of one of the authors' .tet files."""
    lines = path.read_text(encoding="utf-8").splitlines()
    count, tets = (int(line.split()[0]) for line in lines[:2])
    points = np.array([line.split()[:3] for line in lines[2 : 2 + count]], dtype=float)
    return points, np.array([line.split()[1:5] for line in lines[2 + count : 2 + count + tets]], dtype=np.int64)


def published_robot(models: Path, body: str, chamber: str, axis: int, **options) -> geosim.VolumetricRobot:
    """A robot of the authors' surfaces [mm], held at the low end of an axis."""
    skin = trimesh.load(models / body, process=False)
    low, high = skin.bounds[:, axis] * 1e-3
    return geosim.VolumetricRobot.from_surfaces(
        models / body,
        [models / chamber],
        units="mm",
        material=ECOFLEX,
        fixed=lambda v: v[:, axis] < low + 1e-4,
        tip=lambda v: v[:, axis] > high - 1e-4,
        **options,
    )


def authors(out: Path | None, models: Path) -> None:
    """The finger of [Fang2022] beside the shapes that its authors publish (output/twistingResult), at their volumes.

    Their outer surface has the vertices of fingerNew_body.obj in every file. Their chamber holds what is not material, of which
    there is as much as at rest. Their shapes are laid on ours by the best rigid motion.
    """
    body = published_robot(models, "fingerNew_body.obj", "fingerNew_chamber.obj", 0)
    drawn = trimesh.load(models / "fingerNew_body.obj", process=False)
    rest = 1e-3 * np.asarray(drawn.vertices)
    material = float(body.body_volume) * 1e9
    print(f"finger: {len(body.body_tets)} body tets, chamber {body.chamber_volumes[0] * 1e9:.0f} mm^3", flush=True)
    faces = np.ascontiguousarray(body.skin)
    on, face, weights = closest_points(rest, np.ascontiguousarray(body.vertices), build_tree(body.vertices, faces))
    print(
        f"  our skin at rest lies within {np.linalg.norm(on - rest, axis=1).max() * 1e3:.3f} mm of theirs", flush=True
    )
    shapes = {k: published_shape(models / f"output/twistingResult/iter_{k}.tet") for k in (1, 5, 10, 14, 20)}
    ratios = {}
    for k, (x, tets) in shapes.items():
        sizes = np.linalg.det(x[tets[:, 1:]] - x[tets[:, :1]]) / 6.0
        sizes *= np.sign(np.median(sizes))
        ratios[k] = (float(sizes.sum()) - material) / float(body.chamber_volumes[0] * 1e9)
        print(
            f"  theirs, step {k}: V/V0 {ratios[k]:.2f}, {(sizes <= 0).sum()} of {len(tets)} tets inverted", flush=True
        )
    for (k, (x, _)), (_, far) in zip(
        shapes.items(), steps("finger", body, tuple(ratios.values()), None, error_estimate=False)
    ):
        ours = far.frames[-1]
        carried = np.einsum("pc,pci->pi", weights, ours[faces[face]])
        theirs = laid_on(1e-3 * x[: len(rest)], carried)
        moved = np.linalg.norm(carried - rest, axis=1).max() * 1e3
        apart = np.linalg.norm(theirs - carried, axis=1) * 1e3
        nearest = closest_points(theirs, np.ascontiguousarray(ours), build_tree(ours, faces))[0]
        between = np.linalg.norm(nearest - theirs, axis=1) * 1e3
        print(
            f"  step {k}, V/V0 {ratios[k]:.2f}: surfaces {between.mean():.2f} mm apart in the mean, {between.max():.2f} at most, "
            f"the same points {apart.mean():.2f} and {apart.max():.2f}, where ours move up to {moved:.1f}",
            flush=True,
        )
        picture(far, out, f"authors-finger-{k}")


def laid_on(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Points (n, 3), moved rigidly as near as can be to others."""
    a, b = points.mean(axis=0), onto.mean(axis=0)
    u, _, v = np.linalg.svd((points - a).T @ (onto - b))
    turn = (u * [1.0, 1.0, np.sign(np.linalg.det(u @ v))]) @ v
    return (points - a) @ turn + b


def published(out: Path | None, models: Path) -> None:
    """The twister of [Fang2022] (13.5 x 90 mm, chamber 2.3 %) to 17, 124 and 222 times its volume, its preview to 17.

    The energy solver, which `geosim solve --preview` takes, is held to its own fine mesh, by both elements as far as they go.
    """
    surfaces, quick = ("twisting_body.obj", "twisting_chamber.obj"), {}
    for title, ratios in (("preview", (2.0, 5.0, 17.0)), ("twister", (2.0, 5.0, 17.0, 124.0, 222.0))):
        body = published_robot(models, *surfaces, 1, preview=title == "preview")
        print(f"{title}: {len(body.body_tets)} body tets of {len(body.tets)}", flush=True)
        begin, length = body.tip_weights @ body.vertices[body.tip], np.ptp(body.vertices, axis=0).max()

        def ended(name: str, ratio: float, far: geosim.Result) -> None:
            way, turn = far.tip[-1] - begin, float(np.degrees(np.linalg.norm(far.tip_rotation[-1])))  # noqa: B023
            if title == "preview":  # noqa: B023
                quick[name, ratio] = way, turn
            elif (name, ratio) in quick:
                off = np.linalg.norm(quick[name, ratio][0] - way)
                print(
                    f"  {name} to {ratio:g}: the tip of the preview is {off * 1e3:.2f} mm off, "
                    f"{off / np.linalg.norm(way) * 100:.1f} % of its way, {off / length * 100:.2f} % of the length; it turns by "  # noqa: B023
                    f"{quick[name, ratio][1]:.2f} for {turn:.2f} degrees",
                    flush=True,
                )

        for element in ("p2", "p1"):
            state = None
            for ratio in (2.0, 5.0):
                solver, inflated = geosim.EnergyShapeSolver(element=element), geosim.Inflation(volume_ratio=ratio)
                state, seconds = timed(
                    lambda body=body, state=state, solver=solver, inflated=inflated: geosim.solve(
                        body, inflated, solver=solver, initial=state, throw=False
                    )
                )
                print(
                    f"{title}, energy solver, {element}, to {ratio:g}: {state.status.name}, {seconds:.0f} CPU s",
                    flush=True,
                )
                if not len(state.frames):
                    break
                ended(f"energy solver, {element},", ratio, state)
        for ratio, far in steps(title, body, ratios, None, error_estimate=False):
            judged(f"{title} to {ratio:g}", far, float("nan"))
            picture(far, out, f"authors-{title}-{ratio:g}")
            ended("projective solver", ratio, far)


def finger(out: Path | None) -> None:
    """Fig. 9 and 10: tip trajectories of the bellows with and without collision response."""
    body = robot("bellows")
    ratios = [1.1, 1.2, 1.3, 1.4]
    tips: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for contact in (True, False):
        environment = geosim.Environment(self_contact=contact)
        for ratio, result in steps(f"bellows, self-contact {contact}", body, ratios, environment):
            tips[contact].append(result.tip[0])
            picture(result, out, f"bellows-contact-{contact}-{ratio:g}")
    for i, (a, b) in enumerate(zip(tips[True], tips[False])):
        print(
            f"  V/V0 {ratios[i]}: tip with {np.round(a * 1e3, 2)} mm, without {np.round(b * 1e3, 2)} mm, apart "
            f"{np.linalg.norm(a - b) * 1e3:.2f} mm",
            flush=True,
        )


def touching(result, obstacle, near: float) -> tuple[float, float]:
    """Skin area within `near` [m] of an obstacle [m^2], and the largest gap under the touching stretch of the skin [m]."""
    x, faces = result.frames[-1], result.robot.skin
    distance = signed_distances(obstacle.solid, x)[0]
    a, b, c = (x[faces[:, i]] for i in range(3))
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    touch = (distance[faces] < near).all(axis=1)
    if not touch.any():
        return 0.0, float(distance[np.unique(faces)].min())
    span = np.ptp(result.robot.vertices[np.unique(faces[touch])], axis=0)
    low = result.robot.vertices[np.unique(faces[touch])].min(axis=0)
    rest = result.robot.vertices
    side = np.unique(faces)
    under = side[((rest[side, 0] >= low[0]) & (rest[side, 0] <= low[0] + span[0]) & (rest[side, 2] <= low[2] + 1e-4))]
    return float(area[touch].sum()), float(distance[under].max(initial=0.0))


def wrap(out: Path | None) -> None:
    """Fig. 11: contact area and largest gap of fingers of two materials."""
    soft = robot("finger")
    obstacle = geosim.Obstacle.cylinder((0.06, -0.05, -0.0106), (0.06, 0.07, -0.0106), 0.010)
    environment = geosim.Environment(obstacles=[obstacle])
    asked = None
    for title, material, ratios in (
        ("Ecoflex 00-30", ECOFLEX, [2.0, 3.0, 4.0]),
        ("Dragon Skin 20", DRAGON, [1.2, 1.35, 1.5]),
    ):
        body = soft.with_materials(material)
        result, seconds = timed(lambda body=body, ratios=ratios: solve(body, ratios, environment))
        report(f"finger of {title} against a round obstacle", result, seconds)
        if asked is None:
            asked = float(result.chamber_pressures[-1, 0])
        else:  # the stiffer finger at the pressure of the softer one: volumes alone would give both the same shape
            ratio = float(np.interp(asked, result.chamber_pressures[:, 0], result.volume_ratios[:, 0]))
            result, seconds = timed(lambda body=body, ratio=ratio: solve(body, ratio, environment))
            report(f"finger of {title} at the same pressure", result, seconds)
        area, gap = touching(result, obstacle, 3e-4)
        print(
            f"  contact area {area * 1e6:.1f} mm^2, largest gap under it {gap * 1e3:.3f} mm, tip "
            f"{np.round(result.tip[-1] * 1e3, 2)} mm, grip force {np.linalg.norm(result.obstacle_forces[-1, 0]):.4f} N",
            flush=True,
        )
        picture(result, out, f"wrap-{title.replace(' ', '-')}")


def twine(out: Path | None) -> None:
    """Fig. 8: the shipped twiner round its rod, each of both solvers in one command; then with more air, for its grip."""
    body, asked, environment, preview = geosim.load_case(MESHES / "twiner" / "robot.toml")
    for title, solver in (("projective", preview), ("energy", geosim.EnergyShapeSolver())):
        for command in (asked.volume_ratio[-1], asked.volume_ratio):
            act = geosim.Inflation(volume_ratio=command)
            result, seconds = timed(
                lambda act=act, solver=solver: geosim.solve(body, act, environment, throw=False, solver=solver)
            )
            print(
                f"twiner, {title}: {len(body.body_tets)} body tets, {result.status.name}, {len(result.trace)} iterations, "
                f"{seconds:.0f} CPU s. {result.message}",
                flush=True,
            )
            for i in range(len(result.frames)):
                twined(result, i)
        picture(result, out, f"twiner-{title}")


def twined(result, i: int) -> None:
    """One line for a frame: over what angle slices of 4 mm of the curved skin touch the rod, their largest gap, the forces."""
    near, body, rod = 3e-4, result.robot, result.environment.obstacles[0]
    start, end = (np.asarray(rod.parameters[key]) for key in ("start", "end"))
    faces = topology.curved_faces(body.skin, body.p2_edges, len(body.vertices))
    straight = topology.with_mid_edges(body.vertices, body.p2_edges)
    x, rest = (topology.interpolate_p2(nodes, faces, 2)[0] for nodes in (result.nodes(i), straight))
    distance, slices = signed_distances(rod.solid, x)[0], np.floor(rest[:, 0] / 4e-3)
    nearest = [part[distance[part].argmin()] for part in (np.flatnonzero(slices == s) for s in np.unique(slices))]
    touching = np.flatnonzero(distance[nearest] < near)
    line = "touches nowhere"
    if len(touching):
        first, last = touching[[0, -1]]
        axis = (end - start) / np.linalg.norm(end - start)
        across = np.linalg.svd(axis[None])[2][1:]
        angle = np.degrees(np.unwrap(np.arctan2(*(across @ (x[nearest] - start).T))))
        line = (
            f"touches over {abs(angle[last] - angle[first]):.0f} degrees, largest gap there "
            f"{distance[nearest][first : last + 1].max() * 1e3:.3f} mm"
        )
    force = result.obstacle_forces[i, 0]
    pressed = np.linalg.norm(result.contact_forces[i], axis=1).sum()
    off = np.linalg.norm(force - result.reactions[i].sum(axis=0)) / np.linalg.norm(force)
    print(
        f"  V/V0 {result.volume_ratios[i, 0]:.2f}, {result.chamber_pressures[i, 0] / 1e3:.2f} kPa: {line}; sum of all pressing "
        f"{pressed:.4f} N, their resultant {np.linalg.norm(force):.4f} N, the reactions off it by {off:.1e} of it; inverted "
        f"{result.inverted_elements[i]:.0f}, crossings {result.crossings[i]:.0f}, contacts {result.contact_count[i]:.0f}",
        flush=True,
    )


def tube(path: np.ndarray, radius: float, sides: int) -> trimesh.Trimesh:
    """Closed tube of circles across the x axis round the points of a path (n, 3)."""
    n, k = len(path), np.arange(sides)
    angle, after = 2 * np.pi * k / sides, np.roll(k, -1)
    ring = radius * np.stack([np.zeros(sides), np.cos(angle), np.sin(angle)], axis=1)
    vertices = np.vstack([*(p + ring for p in path), path[0], path[-1]])
    starts = sides * np.arange(n - 1)[:, None]
    a, b, c, d = ((starts + shift).ravel() for shift in (k, after, k + sides, after + sides))
    caps = (
        [np.full(sides, n * sides), after, k],
        [np.full(sides, n * sides + 1), k + (n - 1) * sides, after + (n - 1) * sides],
    )
    faces = np.vstack([np.stack(t, axis=1) for t in ((a, b, d), (a, d, c), *caps)])
    return trimesh.Trimesh(vertices, faces if trimesh.Trimesh(vertices, faces).volume > 0 else faces[:, ::-1])


def membrane(out: Path | None) -> None:
    """Fig. 12: the lifted membrane; and the pads against the energy solver where nothing touches."""
    body = robot("membrane")
    ratios = [[1.5, 1.0, 1.0, 1.5], [3.0, 1.0, 1.0, 2.0]]
    result, seconds = timed(lambda: solve(body, ratios, error_estimate=False))
    report("membrane with contact", result, seconds)
    picture(result, out, "membrane")
    alone = geosim.Environment(self_contact=False)
    mine, seconds = timed(lambda: solve(body, ratios[:1], alone, error_estimate=False))
    report("membrane without contact", mine, seconds)
    theirs, seconds = timed(lambda: geosim.solve(body, geosim.Inflation(volume_ratio=ratios[:1]), alone, throw=False))
    skin = np.unique(body.skin)
    if len(mine.frames) and len(theirs.frames):
        gap = np.linalg.norm(mine.frames[0] - theirs.frames[0], axis=1)[skin]
        print(
            f"  energy solver: {theirs.status.name}, {seconds:.0f} CPU s; surfaces apart by {gap.max() * 1e3:.2f} mm at most = "
            f"{gap.max() / 0.25 * 100:.2f} % of 250 mm, mean {gap.mean() * 1e3:.3f} mm"
        )


def table(out: Path | None) -> None:
    """Table I: seconds of meshing, collision checks, collision response and solver in one step, with and without contact.

    On one thread the seconds are those of the processor, on more those of the clock.
    """
    threads = int(os.environ["MKL_NUM_THREADS"])
    clock = cpu if threads == 1 else time.perf_counter
    relaxation.time = SimpleNamespace(perf_counter=clock)  # type: ignore[attr-defined]
    unit = "CPU s" if threads == 1 else "s"
    solve(robot("finger"), 1.05, error_estimate=False)  # loads the kernels
    print(
        f"{threads} thread(s), {unit}: mesh / all checks (one) / response / solver = sum; paper on 16 cores", flush=True
    )
    for name, ratio in (("bellows", 1.2), ("twister", 2.0), ("membrane", [[1.5, 1.0, 1.0, 1.5]])):
        began = clock()
        body = robot(name)
        mesh = clock() - began
        for contact in (True, False):
            began, burnt = clock(), cpu()
            environment = geosim.Environment(self_contact=contact)
            result = solve(body, ratio, environment, error_estimate=False)
            step, burnt = clock() - began, cpu() - burnt
            phases = {k: sum(r["seconds"].get(k, 0.0) for r in result.trace) for k in ("check", "response", "mesh")}
            iterations = [r for r in result.trace if "iteration" in r]
            paper, solver = PAPER[name], step - sum(phases.values())  # with what is made once: matrices, measures
            bad = inside(result, -1) if contact and len(result.frames) else "-"
            print(
                f"{name}, {len(body.tets)} tets, contact {contact}: {mesh:.2f} / {phases['check']:.2f} "
                f"({phases['check'] / max(len(iterations), 1):.3f}) / {phases['response']:.2f} / {solver:.2f} = "
                f"{mesh + step:.2f}; the step {step:.2f} ({burnt:.2f} CPU s); {len(iterations)} iterations, "
                f"{iterations[-1]['factorisations']} factorisations, {result.status.name}, vertices inside {bad}; paper, "
                f"{paper[0]} tets: {paper[1]} / ({paper[2]}) / {paper[3]} / {paper[4]} = {sum(paper[1:]):.2f}",
                flush=True,
            )


def initial(out: Path | None) -> None:
    """What a first shape of the projective solver or of the preview saves the energy solver; and how far both go."""
    alone, projective = geosim.Environment(self_contact=False), geosim.ProjectiveShapeSolver(error_estimate=False)
    preview = geosim.EnergyShapeSolver(element="p1")
    for name, ratio in (("finger", 3.0), ("pneunet", 1.2)):
        body, asked = robot(name), geosim.Inflation(volume_ratio=ratio)
        go = lambda solver, begin=None, body=body, asked=asked: timed(  # noqa: E731
            lambda: geosim.solve(body, asked, alone, throw=False, solver=solver, initial=begin)
        )
        go(projective), go(preview)  # loads the kernels
        full, seconds = go(geosim.EnergyShapeSolver())
        way = np.linalg.norm(full.tip[-1] - body.vertices[body.tip].mean(axis=0))
        print(
            f"{name}, {len(body.tets)} tets, V/V0 {ratio}: energy solver from rest {seconds:.1f} CPU s, {len(full.trace)} "
            f"iterations; the tip moves {way * 1e3:.1f} mm",
            flush=True,
        )
        for title, solver in (("projective", projective), ("preview", preview)):
            first, a = go(solver)
            off = np.linalg.norm(first.tip[-1] - full.tip[-1]) / way if len(first.frames) else np.nan
            print(f"  {title}: {a:.1f} CPU s, {first.status.name}, tip off by {100 * off:.1f} % of its way", flush=True)
            if len(first.frames):
                second, b = go(geosim.EnergyShapeSolver(), first)
                print(
                    f"    energy solver from there: {b:.1f} CPU s, {len(second.trace)} iterations, {second.status.name}",
                    flush=True,
                )
    for title, solver in (("projective", projective), ("preview", preview)):
        result, seconds = timed(
            lambda solver=solver: geosim.solve(
                robot("twister"), geosim.Inflation(volume_ratio=[5.0, 12.0, 20.0]), alone, throw=False, solver=solver
            )
        )
        print(
            f"twister to V/V0 = 5, 12, 20, {title}: {len(result.frames)} reached, {seconds:.1f} CPU s. {result.message}",
            flush=True,
        )


def small(out: Path | None) -> None:
    """Previews of small meshes: the projective solver beside linear elements, both against quadratic ones on the same mesh."""
    alone, generate = geosim.Environment(self_contact=False), geosim.generate
    solvers = {
        "P2": geosim.EnergyShapeSolver(),
        "P1": geosim.EnergyShapeSolver(element="p1"),
        "projective": geosim.ProjectiveShapeSolver(error_estimate=False),
    }
    designs = [
        ("round finger", generate.round_finger(length=60e-3), 1.5),
        ("PneuNet", generate.pneunet(chambers=3), 1.3),
        ("bellows", generate.bellows(convolutions=2), 1.3),
    ]
    for name, design, ratio in designs:
        body, asked = design.robot("ecoflex-00-30", preview=True), geosim.Inflation(volume_ratio=ratio)
        solved = {}
        for title, solver in solvers.items():
            go = lambda solver=solver, body=body, asked=asked: geosim.solve(body, asked, alone, solver=solver)  # noqa: E731
            go()  # loads the kernels
            solved[title] = timed(go)
        tip = solved["P2"][0].tip[-1]
        way = np.linalg.norm(tip - body.vertices[body.tip].mean(axis=0))
        errors = {title: 100 * np.linalg.norm(result.tip[-1] - tip) / way for title, (result, _) in solved.items()}
        parts = [f"{title} {seconds:.2f} CPU s, {errors[title]:.1f} %" for title, (_, seconds) in solved.items()]
        print(f"{name}, {len(body.body_tets)} tets, V/V0 {ratio}: {'; '.join(parts)}", flush=True)


def anderson(out: Path | None) -> None:
    """Fig. 5: accelerations of the same step to the same shape: iterations, CPU seconds, and how far the tip is off."""
    material, alone = "ecoflex-00-30-fang2022", geosim.Environment(self_contact=False)
    bodies = {
        "finger": (robot("finger"), 1.5),
        "PneuNet": (geosim.generate.pneunet().robot(material, max_edge=6e-3), 1.2),
        "twister": (geosim.generate.twister(length=60e-3, wall=3e-3, turns=0.5).robot(material, max_edge=8e-3), 2.0),
        "bellows tube": (geosim.generate.bellows(convolutions=3, wall=2.5e-3).robot(material, max_edge=8e-3), 1.5),
    }
    ways = {
        "newton": geosim.ProjectiveShapeSolver(error_estimate=False),
        # at 1e-4, beside stiff patches, soft bending still lacks up to a quarter of the tip's way
        "Anderson, 15": geosim.ProjectiveShapeSolver(acceleration="anderson", tolerance=1e-6, error_estimate=False),
        "Anderson, 6": geosim.ProjectiveShapeSolver(
            acceleration="anderson", window=6, tolerance=1e-6, error_estimate=False
        ),
    }
    for name, (body, ratio) in bodies.items():
        exact = solve(body, ratio, alone, tolerance=1e-7, volume_tolerance=1e-5, error_estimate=False)
        tip = np.linalg.norm(exact.tip[-1] - body.vertices[body.tip].mean(axis=0))
        print(f"{name}, {len(body.tets)} tets, V/V0 {ratio}: the tip moves {tip * 1e3:.2f} mm", flush=True)
        for title, way in ways.items():
            burnt = cpu()
            way = replace(way, max_iterations=MOST_ITERATIONS)
            result = geosim.solve(body, geosim.Inflation(volume_ratio=ratio), alone, throw=False, solver=way)
            burnt = cpu() - burnt
            rows = [r for r in result.trace if "iteration" in r]
            last = result.residual[-1] if len(result.frames) else rows[-1]["residual"]
            off = np.linalg.norm(result.tip[-1] - exact.tip[-1]) / tip if len(result.frames) else np.nan
            print(
                f"  {title}: {len(rows)} iterations, {burnt:.1f} CPU s, residual {last:.1e}, the tip is off by "
                f"{off * 100:.2f} % of its way, {'reached' if len(result.frames) else f'ended after {MOST_ITERATIONS}'}",
                flush=True,
            )


if __name__ == "__main__":
    cases = {
        "twister": twister,
        "sections": sections,
        "finger": finger,
        "wrap": wrap,
        "twine": twine,
        "membrane": membrane,
    }
    cases |= {"table": table, "anderson": anderson, "initial": initial, "small": small}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    theirs = {"authors": authors, "published": published}
    parser.add_argument("case", nargs="+", choices=[*cases, *theirs, "all"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--models", type=Path, help="the folder `model` of the authors' published code, which has no licence"
    )
    arguments = parser.parse_args()
    if arguments.models is not None:
        cases |= {name: partial(case, models=arguments.models) for name, case in theirs.items()}
    elif set(arguments.case) & set(theirs):
        parser.error("authors and published need --models")
    os.environ["MKL_NUM_THREADS"] = str(arguments.threads)  # what factorisers read
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    for name in cases if "all" in arguments.case else arguments.case:
        cases[name](arguments.out)
