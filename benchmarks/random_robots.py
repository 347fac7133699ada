"""Solves random robots in one command and in several, and recomputes the evidence in their results by independent means.

    python benchmarks/random_robots.py --count 60 --seed 1     a line a robot, then the counts

Robots are coarse (P1, 150 to 5,000 tets): blocks with a chamber, tendon fingers, bellows, PneuNets, membranes; pressures,
volumes, cable lengths and tensions, end displacements; gravity, a ball below, a load at the tip. The evidence of
every last frame is recomputed without geosim's own measures:

- chamber volumes by the divergence theorem over the walls of the chambers;
- inverted elements by the determinants of the tets;
- crossings by segments against triangles of skin and walls, every pair;
- the tip by the mean over its vertices, weighted;
- the balance of forces: reactions, contact, loads and weight add up to zero.

Exit status 1 where evidence is wrong, or where two converged states differ and neither result says that the path branched. On a
rough ball the state depends on the way: 16 and 32 commands then have to agree to a tenth of the bound ("same, finer").
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from typing import Any

import numpy as np
import trimesh
from pinned import ECOFLEX_00_30

import geosim
from geosim import (
    EnergyShapeSolver,
    Environment,
    Inflation,
    Load,
    Obstacle,
    Prescribed,
    Result,
    Select,
    Status,
    generate,
)

COMMANDS = 4  # of the second solve
FINER = (16, 32)  # commands of two more solves, where friction makes the first two differ
SAME = 1e-4  # of the size of the robot, between two states
GRAVITY = 9.81
KINDS = ("block", "tendon", "bellows", "pneunet", "membrane", "pulled")


def block(rng: np.random.Generator, chamber: bool) -> geosim.VolumetricRobot:
    """Return a block, with or without a chamber."""
    half = 1e-3 * rng.uniform([12.0, 6.0, 6.0], [20.0, 9.0, 9.0])
    inner = [trimesh.creation.box(2.0 * (half - 1e-3 * rng.uniform(2.5, 4.0, 3)))] if chamber else []
    return geosim.VolumetricRobot.from_surfaces(
        trimesh.creation.box(2.0 * half), inner, material=geosim.NeoHookean(1e3 * rng.uniform(20, 100), density=1070.0),
        max_edge=6e-3, fixed=Select.plane("x", below=1e-5 - half[0]), tip=Select.plane("x", above=half[0] - 1e-5),
    )  # fmt: skip


def drawn(kind: str, rng: np.random.Generator) -> tuple[geosim.VolumetricRobot, dict[str, Any]]:
    """Return a robot, and what it is commanded in the end: name -> value."""
    if kind == "tendon":
        robot = generate.tendon_finger(joints=int(rng.integers(1, 4)), length=rng.uniform(40e-3, 80e-3)).robot(
            ECOFLEX_00_30, max_edge=12e-3
        )
        if rng.random() < 0.5:
            return robot, {"tension": rng.uniform(0.02, 0.3)}
        length = float(np.linalg.norm(np.diff(robot.cables[0].points, axis=0), axis=1).sum())
        return robot, {"length": length * rng.uniform(0.8, 0.97), "from": length}
    if kind == "pulled":
        return block(rng, False), {"displacement": 1e-3 * rng.uniform([-4, -6, -6], [8, 6, 6])}
    if kind == "block":
        robot = block(rng, True)
    elif kind == "bellows":
        robot = generate.bellows(convolutions=int(rng.integers(2, 4))).robot(ECOFLEX_00_30, max_edge=10e-3)
    elif kind == "pneunet":
        robot = generate.pneunet(chambers=int(rng.integers(1, 4)), wall=rng.uniform(1.5e-3, 2.5e-3)).robot(
            ECOFLEX_00_30, max_edge=7e-3
        )
    else:
        robot = generate.membrane(chambers=1, size=0.06, thickness=2e-3).robot(ECOFLEX_00_30, max_edge=10e-3)
    if rng.random() < 0.5:
        return robot, {"volume_ratio": rng.uniform(0.7, 1.5)}
    return robot, {"pressure": 1e3 * rng.uniform(-1.0, 3.0)}


def around(robot: geosim.VolumetricRobot, rng: np.random.Generator) -> dict[str, Any]:
    """Return surroundings: gravity, a ball, a load at the tip, each in half of the cases."""
    low, high = robot.vertices.min(axis=0), robot.vertices.max(axis=0)
    given: dict[str, Any] = {"gravity": (0.0, 0.0, -GRAVITY if rng.random() < 0.5 else 0.0)}
    if rng.random() < 0.5:
        radius = 0.3 * float(np.ptp(robot.vertices[:, 0]))
        center = np.array(
            [high[0] - 0.3 * (high[0] - low[0]), 0.5 * (low[1] + high[1]), low[2] - radius - 1e-3 * rng.uniform(0.5, 4)]
        )
        given["obstacles"] = [Obstacle.sphere(center, radius, friction=float(rng.choice([0.0, 0.3])))]
    return given


def actuation(asked: dict[str, Any], count: int) -> geosim.Actuation:
    """Return the commands of what is asked, in even shares."""
    shares = np.arange(1, count + 1)[:, None] / count
    if "tension" in asked:
        return geosim.CableTensions(asked["tension"] * shares)
    if "length" in asked:
        return geosim.CableLengths(asked["from"] + (asked["length"] - asked["from"]) * shares)
    if "volume_ratio" in asked:
        return Inflation(volume_ratio=1.0 + (asked["volume_ratio"] - 1.0) * shares)
    return geosim.Passive(steps=count) if "displacement" in asked else Inflation(pressure=asked["pressure"] * shares)


def solved(
    robot: geosim.VolumetricRobot, asked: dict[str, Any], given: dict[str, Any], load: Any, count: int, seconds: float
) -> Result:
    """Return the result of so many commands; a load grows with them."""
    shares = np.arange(1, count + 1)[:, None] / count
    scene = dict(given)
    if load is not None:
        scene["loads"] = [Load.force(robot.tip, load * shares)]
    if "displacement" in asked:
        scene["prescribed"] = [Prescribed(robot.tip, asked["displacement"] * shares)]
    solver = EnergyShapeSolver(element="p1", max_seconds=seconds, imperfection=0.0, threads=1)
    with np.errstate(all="ignore"):
        return geosim.solve(robot, actuation(asked, count), Environment(**scene), solver=solver, throw=False)


def crossings(points: np.ndarray, faces: np.ndarray) -> int:
    """Return how many edges pass through faces that they have no vertex of: every pair, by signed volumes."""
    edges = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    low, high = points[faces].min(axis=1), points[faces].max(axis=1)
    count = 0
    for a, b in edges:
        p, q = points[a], points[b]
        near = (low <= np.maximum(p, q)).all(axis=1) & (high >= np.minimum(p, q)).all(axis=1)
        near &= ~((faces == a) | (faces == b)).any(axis=1)
        u, v, w = points[faces[near]].transpose(1, 0, 2)

        def volume(x: np.ndarray, y: np.ndarray, z: np.ndarray, o: np.ndarray) -> np.ndarray:
            return np.einsum("ij,ij->i", np.cross(x - o, y - o), z - o)

        before, after = volume(u, v, w, p), volume(u, v, w, q)
        to = q - p
        sides = [np.einsum("ij,ij->i", np.cross(x - p, y - p), to[None]) for x, y in ((u, v), (v, w), (w, u))]
        same = (np.sign(sides[0]) == np.sign(sides[1])) & (np.sign(sides[1]) == np.sign(sides[2]))
        count += int((same & (before * after < 0)).sum())
    return count


def evidence(result: Result, load: Any) -> str:
    """Return what of the last frame's evidence is not so, or nothing."""
    robot, x = result.robot, result.frames[-1]
    for c, walls in enumerate(robot.chamber_walls):
        volume = abs(np.einsum("ij,ij->i", x[walls[:, 0]], np.cross(x[walls[:, 1]], x[walls[:, 2]])).sum() / 6.0)
        if abs(volume / result.chamber_volumes[-1, c] - 1.0) > 1e-6:
            return f"chamber volume {result.chamber_volumes[-1, c]:.6g}, {volume:.6g} by its walls"
    corners = x[robot.body_tets]
    inverted = int((np.linalg.det(corners[:, 1:] - corners[:, :1]) <= 0.0).sum())
    if inverted != result.inverted_elements[-1]:
        return f"inverted elements {result.inverted_elements[-1]:g}, {inverted} by determinants"
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    found = crossings(x, faces)
    if (found > 0) != (result.crossings[-1] > 0):
        return f"crossings {result.crossings[-1]:g}, {found} by every pair"
    if np.abs(robot.tip_weights @ x[robot.tip] - result.tip[-1]).max() > 1e-12:
        return "the tip is elsewhere"
    if result.converged:
        weight = np.zeros(3)
        rest = robot.vertices[robot.body_tets]
        masses = np.abs(np.linalg.det(rest[:, 1:] - rest[:, :1])) / 6.0 * 1.0
        density = np.array([robot.materials[r].density for r in robot.regions[robot.is_body]])
        weight = (masses * density).sum() * np.asarray(result.environment.gravity)
        total = np.nansum(result.reactions[-1], axis=0) + np.nansum(result.contact_forces[-1], axis=0) + weight
        total += 0.0 if load is None else load
        scale = (
            np.abs(result.reactions[-1]).sum() + np.abs(result.contact_forces[-1]).sum() + np.abs(weight).sum() + 1e-9
        )
        if np.abs(total).max() > 1e-4 * scale:
            return f"forces add up to {np.abs(total).max():.3g} of {scale:.3g} N"
    return ""


def told_of_branches(result: Result) -> bool:
    """Return whether a result says that its path branched, is unstable or was not followed to the end."""
    return result.status is not Status.CONVERGED or any(
        "other shape" in s or "state" in s or "stab" in s for s in result.trust()
    )


def main() -> int:
    """Solve the robots and print a line for each."""
    parser = argparse.ArgumentParser(description="Random robots solved in one command and in several.")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a solve, at most")
    asked_for = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for i in range(asked_for.count):
        rng = np.random.default_rng([asked_for.seed, i])
        kind = KINDS[i % len(KINDS)]
        robot, asked = drawn(kind, rng)
        given = around(robot, rng)
        load = rng.uniform(-0.05, 0.05, 3) if rng.random() < 0.4 and kind != "pulled" else None
        clock = time.process_time()
        one, several = (solved(robot, asked, given, load, n, asked_for.seconds) for n in (1, COMMANDS))
        spent = time.process_time() - clock
        wrong = next(filter(None, (evidence(r, load) for r in (one, several) if len(r.frames))), "")
        both = one.converged and several.converged and len(one.frames) and len(several.frames)
        apart = float(np.abs(one.frames[-1] - several.frames[-1]).max()) / robot.size if both else np.nan
        rough = any(o.friction > 0 for o in given.get("obstacles", ())) and bool(
            np.nanmax(one.contact_count, initial=0) > 0
        )
        if wrong:
            verdict = "WRONG"
        elif both:
            told = told_of_branches(one) or told_of_branches(several)
            verdict = "same" if apart < SAME else "other, told" if told else "OTHER"
            if verdict == "OTHER" and rough:  # friction depends on the way: finer ways agree
                finer = [solved(robot, asked, given, load, n, 10 * asked_for.seconds) for n in FINER]
                if all(r.converged for r in finer):
                    between = float(np.abs(finer[0].frames[-1] - finer[1].frames[-1]).max()) / robot.size
                    verdict = "same, finer" if between < 0.1 * SAME else "OTHER"
        else:
            verdict = (
                "same"
                if one.status is several.status
                else "one reached"
                if one.converged or several.converged
                else "neither"
            )
        counts[verdict] += 1
        values = ", ".join(f"{k} {np.round(v, 6)}" for k, v in asked.items())
        sys.stdout.write(
            f"{i:3} {kind:9}{len(robot.body_tets):6} tets {verdict:12} {one.status.name:15}{several.status.name:15} "
            f"apart {apart:.1e} {spent:6.1f} CPU s  {values} {'friction ' * rough}{wrong}\n"
        )
        sys.stdout.flush()
    sys.stdout.write(", ".join(f"{verdict}: {count}" for verdict, count in counts.items()) + "\n")
    return 1 if counts["WRONG"] or counts["OTHER"] else 0


if __name__ == "__main__":
    sys.exit(main())
