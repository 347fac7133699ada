"""Error bars held against truth, meshes adapted to an accuracy, sensitivities against differences, controls that are sought.

    python benchmarks/error_bars.py mesh [CASE ...]      bars of the mesh against two global refinements
    python benchmarks/error_bars.py material             how often bars of the material cover, linearly and solved again
    python benchmarks/error_bars.py adapt                meshes adapted to 2 % against uniform refinement
    python benchmarks/error_bars.py reality [CASE ...]   95 % bars against a measured membrane, beam and arm
    python benchmarks/error_bars.py sensitivity          sensitivities against central differences, and against remeshing
    python benchmarks/error_bars.py inverse              solve_for: random targets that can be reached, and some that cannot
    python benchmarks/error_bars.py table [mesh ...]     what is known so far, without a solve

Rows go to --out (default error_bars_rows) as they are found, and what stands there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from scipy.interpolate import RectBivariateSpline

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "calibration"))
from reality import REALITY, reality, show_reality
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Load, Obstacle, Passive, generate
from geosim.geometry import topology
from geosim.response.accuracy.bars import bars_of
from geosim.response.accuracy.correction import correct
from geosim.response.accuracy.refined import refine
from geosim.response.derivatives.quantities import ContactConfiguration, quantity
from geosim.response.derivatives.rest_shape import design_motion
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.states.configuration import ArcLengthConstraint

QUICK = EnergyShapeSolver(check_stability=False)
RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)
GRAVITY = (0.0, 0.0, -9.81)


# ---- robots of some ten to some hundred tets, with flat faces


def _robot(vertices, tets, low, high, regions=None, material=RUBBER):
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=low, tip=high)


def _cut(sizes, cells, keep, regions=None):
    """Return vertices, tets and regions of a block of which the cells stay whose middles [mm] are kept."""
    vertices, tets = block(sizes, cells)
    tets = tets[keep(*(vertices[tets].mean(axis=1) * 1e3).T)]
    used, tets = np.unique(tets, return_inverse=True)
    vertices, tets = vertices[used], tets.reshape(-1, 4)
    return vertices, tets, None if regions is None else regions(*(vertices[tets].mean(axis=1) * 1e3).T).astype(int)


def tower():
    """A tower of two chambers side by side."""
    vertices, tets = block((0.02, 0.012, 0.03), (5, 3, 3))
    x, y, z = (vertices[tets].mean(axis=1) * 1e3).T
    between = (y > 4) & (y < 8) & (z > 10) & (z < 20)
    regions = np.where(between & (x > 4) & (x < 8), 1, 0) + np.where(between & (x > 12) & (x < 16), 2, 0)
    return _robot(vertices, tets, vertices[:, 2] < 1e-9, vertices[:, 2] > 0.03 - 1e-9, regions)


def notched():
    """A bar with a square notch in its top."""
    vertices, tets, _ = _cut((0.05, 0.01, 0.012), (10, 1, 6), lambda x, y, z: ~((x > 20) & (x < 30) & (z > 8)))
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.05 - 1e-9)


def layered():
    """A bar with a chamber above a layer that is ten times as stiff."""
    vertices, tets = block((0.03, 0.012, 0.015), (3, 3, 4))
    x, y, z = (vertices[tets].mean(axis=1) * 1e3).T
    regions = np.where((x > 10) & (x < 20) & (y > 4) & (y < 8) & (z > 7.5) & (z < 11.25), 2, np.where(z < 3.75, 1, 0))
    stiff = geosim.NeoHookean(mu=1e6)
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.03 - 1e-9
    return _robot(vertices, tets, *ends, regions, {0: RUBBER, 1: stiff})


def twisted():
    """A square bar, twisted by a right angle, with a chamber off its middle."""
    vertices, tets = block((0.03, 0.012, 0.012), (3, 3, 3))
    middle = vertices[tets].mean(axis=1) * 1e3
    inside = (np.abs(middle - (15.0, 6.0, 6.0)) < (5.0, 2.0, 2.0)).all(axis=1)
    y, z = (vertices[:, 1:] - 0.006).T
    z = np.where(z > 0.0019, z + 0.002, z)
    turn = 0.5 * np.pi * vertices[:, 0] / 0.03
    vertices = np.stack(
        [vertices[:, 0], np.cos(turn) * y - np.sin(turn) * z, np.sin(turn) * y + np.cos(turn) * z], axis=1
    )
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.03 - 1e-9, inside.astype(int))


def clasp():
    """A U, held at one end and pulled at the other."""
    vertices, tets, _ = _cut((0.03, 0.008, 0.03), (6, 2, 6), lambda x, y, z: ~((x > 10) & (z > 10) & (z < 20)))
    high = (vertices[:, 0] > 0.03 - 1e-9) & (vertices[:, 2] > 0.019)
    return _robot(vertices, tets, (vertices[:, 0] > 0.03 - 1e-9) & ~high, high)


def frame():
    """A frame with a square hole, held along one side."""
    hole = lambda x, y, z: (x > 10) & (x < 20) & (z > 10) & (z < 20)  # noqa: E731
    vertices, tets, _ = _cut((0.03, 0.008, 0.03), (6, 2, 6), lambda *at: ~hole(*at))
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.03 - 1e-9)


def bar():
    """A bar."""
    vertices, tets = block((0.06, 0.01, 0.01), (6, 2, 2), skew=0.2)
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.06 - 1e-9)


def indented():
    """A block that hangs from its top, with short cells where a cylinder will press on it from below."""
    vertices, tets = block((0.03, 0.01, 0.015), (8, 2, 3))
    line = 1e-3 * np.array([0, 5, 8, 10.5, 13, 15.5, 18, 23, 30])
    vertices[:, 0] = line[np.rint(vertices[:, 0] / 0.03 * 8).astype(int)]
    return _robot(vertices, tets, vertices[:, 2] > 0.015 - 1e-9, vertices[:, 0] > 0.03 - 1e-9)


def resting():
    """A bar with short cells where it will touch something."""
    vertices, tets = block((0.06, 0.01, 0.01), (7, 5, 2))
    lines = 1e-3 * np.array([0, 20, 36, 45, 48.5, 51.5, 55, 60]), 1e-3 * np.array([0, 2.5, 4, 6, 7.5, 10])
    for axis, line in enumerate(lines):
        vertices[:, axis] = line[np.rint(vertices[:, axis] / line[-1] * (len(line) - 1)).astype(int)]
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.06 - 1e-9)


def pneunet():
    """A PneuNet of one chamber, as coarse as its surfaces allow."""
    return generate.pneunet(chambers=1, chamber_length=12e-3).robot(RUBBER, max_edge=40e-3)


def finger():
    """A bar with a chamber below its middle."""
    inside = lambda x, y, z: (x > 10) & (x < 30) & (y > 4) & (y < 8) & (z > 3.5) & (z < 7)  # noqa: E731
    vertices, tets, regions = _cut((0.04, 0.012, 0.014), (8, 3, 4), lambda x, y, z: x > 0, inside)
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.04 - 1e-9, regions)


def angle():
    """An L, held at one end."""
    vertices, tets, _ = _cut((0.03, 0.01, 0.03), (6, 2, 6), lambda x, y, z: (x < 10) | (z < 10))
    return _robot(vertices, tets, vertices[:, 0] > 0.03 - 1e-9, vertices[:, 2] > 0.03 - 1e-9)


def plate():
    """A square plate, held around."""
    vertices, tets = block((0.04, 0.04, 0.004), (8, 8, 1))
    away = np.abs(vertices[:, :2] - 0.02)
    return _robot(vertices, tets, (away > 0.02 - 1e-9).any(axis=1), (away < 0.0051).all(axis=1))


def cross():
    """A cross, held at one arm and pulled at the next."""
    arms = lambda x, y, z: ((x > 10) & (x < 20)) | ((y > 10) & (y < 20))  # noqa: E731
    vertices, tets, _ = _cut((0.03, 0.03, 0.01), (6, 6, 2), arms)
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 1] > 0.03 - 1e-9)


def slots():
    """A bar with a hole and a slot."""
    gaps = lambda x, y, z: ((x > 15) & (x < 25) & (z > 5) & (z < 10)) | ((x > 35) & (x < 45) & (z < 5))  # noqa: E731
    vertices, tets, _ = _cut((0.06, 0.01, 0.015), (12, 2, 3), lambda *at: ~gaps(*at))
    return _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.06 - 1e-9)


@dataclass(frozen=True)
class Case:
    """A robot, what is done to it, and what is asked."""

    robot: Callable[[], Any]
    actuation: Any
    measures: tuple[str, ...]
    environment: Callable[[Any], Environment] = lambda robot: Environment()
    element: str = "p2"


def _pushed(force: tuple[float, float, float]) -> Callable[[Any], Environment]:
    return lambda robot: Environment(loads=Load.force(robot.tip, force))


def _pressed(robot: Any) -> Environment:
    top = (robot.vertices[robot.skin][:, :, 2] > 0.004 - 1e-9).all(axis=1)
    return Environment(loads=Load.traction(robot.skin[top], (0.0, 0.0, -1.5e3)))


def _on_ball(robot: Any) -> Environment:
    ball = Obstacle.sphere((0.05, 0.0051, -0.0152), 0.015)
    return Environment(gravity=GRAVITY, obstacles=ball, loads=Load.force(robot.tip, (0.0, 0.0, -0.02)))


def _on_cylinder(robot: Any) -> Environment:
    rail = Obstacle.cylinder((0.0135, -0.02, -0.0101), (0.0135, 0.03, -0.0101), 0.01, motion=[[0.0, 0.0, 0.0015]])
    return Environment(obstacles=rail)


CASES = {
    "tower": Case(tower, Inflation(pressure=[[8e3, 0.0]]), ("tip", "bend_angle", "chamber_volumes")),
    "notched": Case(notched, Passive(), ("tip", "bend_angle"), _pushed((0.0, 0.0, -0.03))),
    "layered": Case(layered, Inflation(volume_ratio=1.5), ("tip", "bend_angle", "chamber_pressures")),
    "twisted": Case(twisted, Inflation(pressure=10e3), ("tip", "chamber_volumes")),
    "clasp": Case(clasp, Passive(), ("tip",), _pushed((0.0, 0.0, 0.05))),
    "frame": Case(frame, Passive(), ("tip",), _pushed((0.0, 0.01, -0.2))),
    "ball": Case(resting, Passive(), ("tip", "obstacle_forces"), _on_ball),
    "indented": Case(indented, Passive(), ("tip", "obstacle_forces"), _on_cylinder),
    "preview": Case(bar, Passive(), ("tip",), lambda robot: Environment(gravity=GRAVITY), "p1"),
    "pneunet": Case(pneunet, Inflation(volume_ratio=1.3), ("tip", "bend_angle", "chamber_pressures")),
    "finger": Case(finger, Inflation(volume_ratio=1.4), ("tip", "bend_angle", "chamber_pressures")),
    "angle": Case(angle, Passive(), ("tip",), _pushed((0.05, 0.02, 0.0))),
    "plate": Case(plate, Passive(), ("tip",), _pressed),
    "cross": Case(cross, Passive(), ("tip",), _pushed((0.1, 0.0, -0.05))),
    "slots": Case(slots, Passive(), ("tip", "bend_angle"), _pushed((0.0, 0.0, -0.03))),
}  # fmt: skip
# Robots on which constants of the bars were set, on the ball the rate in contact: they judge nothing.
SET_ON = ("finger", "angle", "plate", "cross", "slots", "ball")


# ---- the mesh


def mesh(name: str) -> list[dict[str, Any]]:
    """Return a row for every measure of a case: bar, and what two global refinements say."""
    case, clock = CASES[name], time.perf_counter()
    robot = case.robot()
    solver = replace(QUICK, element=case.element)
    environment = case.environment(robot)
    result = geosim.solve(robot, case.actuation, environment, solver=solver)
    bars = dict(zip(case.measures, bars_of(result, case.measures)))
    values = {of: [bars[of].value] for of in case.measures}
    sizes = [len(robot.body_tets)]
    for _ in range(2):
        found = correct(result, -1)
        environment = found.refined.environment(environment)
        result = geosim.solve(found.refined.robot, case.actuation, environment, solver=solver, initial=found.start)
        sizes.append(len(result.robot.body_tets))
        for of in case.measures:
            values[of].append(np.asarray(getattr(result, of)[-1]))
    out = []
    for of in case.measures:
        m = [np.atleast_1d(v) for v in values[of]]
        steps = m[1] - m[0], m[2] - m[1]
        rate = float(np.log2(np.linalg.norm(steps[0]) / np.linalg.norm(steps[1])))
        limit = m[2] + steps[1] / (2.0 ** np.clip(rate, 1.0, 4.0) - 1.0)
        error, bar_ = np.abs(limit - m[0]), np.atleast_1d(bars[of].mesh)
        out.append({
            "case": name, "of": of, "tets": sizes, "rate": rate, "values": [v.tolist() for v in m],
            "error": error.tolist(), "bar": bar_.tolist(),
            "covered": bool((error.ravel() <= bar_.ravel()).all()), "ratio": float(np.linalg.norm(bar_) / np.linalg.norm(error)),
            "relative": float(np.linalg.norm(error) / np.linalg.norm(limit)), "seconds": time.perf_counter() - clock,
        })  # fmt: skip
    return out


def show_mesh(rows: list[dict[str, Any]]) -> None:
    """Print the table of the bars of the mesh."""
    print(f"{'case':10s} {'measure':18s} {'tets':>18s} {'rate':>5s} {'error %':>8s} {'bar/error':>9s} covered")
    for r in rows:
        print(f"{r['case']:10s} {r['of']:18s} {'/'.join(map(str, r['tets'])):>18s} {r['rate']:5.2f} {100 * r['relative']:8.2f} "
              f"{r['ratio']:9.2f} {r['covered']}")  # fmt: skip
    for said, mine in (
        ("judged", [r for r in rows if r["case"] not in SET_ON]),
        ("set on", [r for r in rows if r["case"] in SET_ON]),
    ):
        if mine:
            ratios = [r["ratio"] for r in mine]
            print(f"{said}: {sum(r['covered'] for r in mine)} of {len(mine)} covered; bar/error: median {np.median(ratios):.2f}, "
                  f"largest {max(ratios):.2f}")  # fmt: skip


# ---- the material


def _pulled(seed: int) -> Any:
    """A calibration of a pull of the rubber with noise of 3 %."""
    rng, stretch = np.random.default_rng(seed), np.linspace(1.05, 2.0, 40)
    stress = RUBBER.c1 * 2 * (stretch - stretch**-2) + RUBBER.c2 * 2 * (1 - stretch**-3)
    noisy = stress + 0.03 * stress.max() * rng.standard_normal(len(stress))
    return geosim.calibrate.fit(
        geosim.calibrate.MaterialTest("uniaxial", stretch, noisy), "mooney-rivlin", toe="none", gauge_error=0.0
    )


MATERIALS = {"twisted": "tip", "notched": "bend_angle"}


def material(name: str) -> list[dict[str, Any]]:
    """Return how many draws of the constants the bar covers: 2000 propagated linearly, 30 solved again."""
    case, of, fit = CASES[name], MATERIALS[name], _pulled(3)
    robot = case.robot().with_materials(fit.material)
    environment = case.environment(robot)
    result = geosim.solve(robot, case.actuation, environment, solver=QUICK)
    bar_ = np.atleast_1d(bars_of(result, (of,), fit)[0].material)
    slopes = [np.atleast_1d(geosim.sensitivity(result, of, f"material.{n}").jacobian) for n in fit.parameters]
    spread = np.array([0.5 * np.ptp(fit.intervals[n]) for n in fit.parameters]) / 1.959964
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(2), fit.correlations * np.outer(spread, spread), 2030)
    linear = (np.abs(draws[:2000] @ slopes) <= bar_).mean(axis=0)
    solved = []
    for draw in draws[2000:]:
        other = robot.with_materials(replace(fit.material, c1=fit.material.c1 + draw[0], c2=fit.material.c2 + draw[1]))
        again = geosim.solve(other, case.actuation, environment, solver=QUICK)
        solved.append(np.abs(np.atleast_1d(getattr(again, of)[-1] - getattr(result, of)[-1])) <= bar_)
    return [{"case": name, "of": of, "linear": linear.tolist(), "solved": np.sum(solved, axis=0).tolist(), "count": 30}]


def show_material(rows: list[dict[str, Any]]) -> None:
    """Print how often the bars of the material cover."""
    for r in rows:
        linear = ", ".join(f"{100 * v:.1f} %" for v in r["linear"])
        print(f"{r['case']:10s} {r['of']:12s} linear {linear}; solved again {r['solved']} of {r['count']}")


# ---- adapted meshes


def _from_surface(
    sizes: tuple[float, float, float],
    cells: tuple[int, int, int],
    keep: Any,
    axes: tuple[int, int],
    chamber: Any = None,
) -> Any:
    """A robot from the surface of the blocks that are kept, held below along one axis and with its tip above along another."""
    vertices, tets = block(sizes, cells)
    x, y, z = (vertices[tets].mean(axis=1) * 1e3).T
    body = trimesh.Trimesh(vertices, topology.boundary_faces(tets[keep(x, y, z)]))
    body.remove_unreferenced_vertices()
    chambers = [] if chamber is None else [trimesh.creation.box(bounds=chamber)]
    held = geosim.Select.plane("xyz"[axes[0]], below=1e-6)
    tip = geosim.Select.plane("xyz"[axes[1]], above=sizes[axes[1]] - 1e-6)
    return geosim.VolumetricRobot.from_surfaces(body, chambers, material=RUBBER, fixed=held, tip=tip, max_edge=6e-3)


def _end(axis: str, above: float, force: tuple[float, float, float]) -> Environment:
    return Environment(loads=Load.force(geosim.Select.plane(axis, above=above - 1e-6), force))


def _bracket() -> Any:
    return _from_surface((0.03, 0.01, 0.03), (3, 1, 3), lambda x, y, z: (x < 10) | (z > 20), (2, 0))


def _slotted() -> Any:
    return _from_surface((0.06, 0.01, 0.015), (6, 1, 3), lambda x, y, z: ~((x > 20) & (x < 30) & (z > 5)), (0, 0))


def _block() -> Any:
    chamber = [[0.01, 0.004, 0.004], [0.03, 0.008, 0.008]]
    return _from_surface((0.04, 0.012, 0.014), (1, 1, 1), lambda x, y, z: x > 0, (0, 0), chamber)


ADAPTED = {
    "bracket": (_bracket, Passive(), _end("x", 0.03, (0.0, 0.02, -0.05)), "tip"),
    "slotted": (_slotted, Passive(), _end("x", 0.06, (0.0, 0.005, -0.01)), "tip"),
    "block": (_block, Inflation(volume_ratio=1.5), Environment(), "chamber_pressures"),
}
LARGEST, ADAPTED_LARGEST = 5000, 12_000  # tets, whose bars are found on meshes of eight times as many: in some minutes


def adapted(name: str) -> list[dict[str, Any]]:
    """Return tets and CPU seconds that 2 % take, adapted, and with every tet split into eight until the bar is met."""
    make, actuation, environment, of = ADAPTED[name]
    robot, clock = make(), time.process_time()
    found = geosim.adapt(robot, actuation, environment, of=of, accuracy=0.02, solver=QUICK, max_tets=ADAPTED_LARGEST)
    row = {"case": name, "of": of, "status": found.status.name, "message": found.message, "tets": len(found.robot.body_tets),
           "value": np.atleast_1d(getattr(found, of)[-1]).tolist(), "seconds": time.process_time() - clock}  # fmt: skip
    clock, mesh_, around, sizes = time.process_time(), robot.remesh(max_edge=robot.size / 6.0), environment, []
    while True:
        result = geosim.solve(mesh_, actuation, around, solver=QUICK)
        bar_ = bars_of(result, (of,))[0]
        rest = mesh_.tip_weights @ mesh_.vertices[mesh_.tip] if of == "tip" else 0.0
        missed = float(np.linalg.norm(bar_.mesh) / np.linalg.norm(bar_.value - rest))
        sizes.append([len(mesh_.body_tets), missed, time.process_time() - clock])
        if missed <= 0.02 or 8 * len(mesh_.body_tets) > LARGEST:
            return [{**row, "uniform": sizes, "value_uniform": np.atleast_1d(bar_.value).tolist()}]
        refined = refine(mesh_)
        mesh_, around = refined.robot, refined.environment(around)


def show_adapted(rows: list[dict[str, Any]]) -> None:
    """Print what adapted and uniform meshes take."""
    for r in rows:
        uniform = "; ".join(f"{n} tets {100 * b:.1f} % after {s:.0f} s" for n, b, s in r["uniform"])
        print(
            f"{r['case']} {r['of']}: adapted {r['status']}, {r['tets']} tets, {r['seconds']:.0f} CPU s; uniform: {uniform}"
            f"{'' if r['status'] == 'CONVERGED' else chr(10) + '    ' + r['message']}"
        )


# ---- sensitivities

SHARP = EnergyShapeSolver(tolerance=1e-11, check_stability=False)
WALL = 0.1e-3  # by which a wall is changed and meshed again, either way [m]


def _differences(
    make: Callable[[float], Any], to: str, step: float, measures: tuple[str, ...], pick: Any
) -> list[dict]:
    """Return how far sensitivities are from central differences of results that `make` solves again."""
    result, sides = make(0.0), (make(step), make(-step))
    rows = []
    for of in measures:
        slope = (np.asarray(getattr(sides[0], of)[-1]) - np.asarray(getattr(sides[1], of)[-1])) / (2.0 * step)
        found = pick(geosim.sensitivity(result, of, to).jacobian)
        rows.append({"of": of, "to": to, "off": float(np.abs(found - slope).max() / np.abs(slope).max())})
    return rows


def by_controls() -> list[dict[str, Any]]:
    """An inflated finger under gravity and a force: without contact."""
    robot, measures = finger(), ("tip", "bend_angle", "chamber_pressures")
    around = _pushed((0.0, 0.01, 0.02))(robot)

    def solved(h: float = 0.0, robot: Any = robot, around: Any = around) -> Any:
        return geosim.solve(robot, Inflation(volume_ratio=1.3 + h), around, solver=SHARP)

    way = np.random.default_rng(0).standard_normal(robot.vertices.shape)
    softer = lambda h: solved(robot=robot.with_materials(replace(RUBBER, c1=RUBBER.c1 + h)))  # noqa: E731
    loaded = lambda h: solved(around=_pushed((0.0, 0.01 + h, 0.02))(robot))  # noqa: E731
    moved = lambda h: solved(robot=replace(robot, vertices=robot.vertices + h * way))  # noqa: E731
    along = lambda jacobian: np.einsum("...ni,ni->...", jacobian, way)  # noqa: E731
    return [
        *_differences(solved, "volume_ratio", 1e-4, measures, lambda j: j[..., 0]),
        *_differences(softer, "material.c1", 40.0, measures, lambda j: j),
        *_differences(loaded, "load:0", 1e-5, measures, lambda j: j[..., 1]),
        *_differences(moved, "vertices", 1e-7, ("tip", "chamber_pressures"), along),
    ]


def by_contact(friction: float) -> list[dict[str, Any]]:
    """A bar pressed onto a ball in one increment; its equilibrium is found again from the same anchors."""
    vertices, tets = block((0.04, 0.012, 0.012), (4, 3, 3))
    robot = _robot(vertices, tets, vertices[:, 0] < 1e-9, vertices[:, 0] > 0.04 - 1e-9)
    ball = Obstacle.sphere((0.03, 0.006, -0.0105), 0.01, friction=friction)
    around = Environment(loads=Load.force(robot.tip, (0.02, 0.0, -0.2)), obstacles=ball)
    result = geosim.solve(robot, Passive(), around, solver=SHARP)
    state, target = result.state, result.state.target
    problem, newton = state.problem, EquilibriumSearch(SHARP.tolerance, SHARP.max_iterations)

    def again(h: float, to: str) -> ContactConfiguration:
        poses, external = target.contact_state.poses.copy(), target.external.copy()
        if to == "obstacle:0":
            poses[0, :3, 3] += h * np.array([0.6, 0.0, 0.8])
        else:
            external[: len(problem.nodes), 2] += h * problem.load_shapes[0][0][problem.nodes] / problem.force_unit
        changed = replace(target, contact_state=target.contact_state.at(poses), external=external)
        found = newton.equilibrium(
            problem, state.point, ArcLengthConstraint(changed, changed, 1.0, changed.contact_state), Budget()
        )
        return ContactConfiguration(problem, found.point, replace(found.target.contact_state, own=friction > 0.0))

    rows = []
    for to, step, way in (("obstacle:0", 3e-8, (0.6, 0.0, 0.8)), ("load:0", 1e-5, (0.0, 0.0, 1.0))):
        sides = again(step, to), again(-step, to)
        for of in ("tip", "bend_angle", "obstacle_forces"):
            value = quantity(of, problem, sides[0]).value
            slope = (value(sides[0]) - value(sides[1])) / (2.0 * step)
            found = geosim.sensitivity(result, of, to).jacobian @ np.array(way)
            rows.append({"of": of, "to": to, "off": float(np.abs(found - slope).max() / np.abs(slope).max())})
    return rows


def by_wall() -> list[dict[str, Any]]:
    """The wall of a PneuNet: on the moved mesh, and what meshing both sides again makes of it beside its mesh bars."""

    def meshed(wall: float) -> Any:
        return generate.pneunet(chambers=1, chamber_length=12e-3, wall=wall).robot(
            "dragon-skin-10-dubied2022", max_edge=12e-3
        )

    robot, measures = meshed(2e-3), ("tip", "chamber_volumes")
    motion = design_motion(robot, "wall")
    solved = lambda robot: geosim.solve(robot, Inflation(pressure=2e3), solver=SHARP)  # noqa: E731
    moved = lambda h: solved(replace(robot, vertices=robot.vertices + h * motion))  # noqa: E731
    rows = _differences(moved, "design.wall", 2e-7, measures, lambda j: j)
    result, sides = solved(robot), [solved(meshed(2e-3 + h)) for h in (WALL, -WALL)]
    bars = [bars_of(side, measures) for side in sides]
    for k, of in enumerate(measures):
        found = geosim.sensitivity(result, of, "design.wall").jacobian * 2.0 * WALL
        change = np.asarray(getattr(sides[0], of)[-1]) - np.asarray(getattr(sides[1], of)[-1])
        both = bars[0][k].mesh + bars[1][k].mesh
        rows.append({
            "of": of, "to": "design.wall, meshed again", "off": float(np.abs(found - change).max() / np.abs(change).max()),
            "bars": float(both.max() / np.abs(change).max()), "within": bool((np.abs(found - change) <= both).all()),
        })  # fmt: skip
    return rows


SENSITIVE = {
    "free": by_controls,
    "contact": lambda: by_contact(0.0),
    "friction": lambda: by_contact(0.6),
    "slip": lambda: by_contact(0.05),
    "wall": by_wall,
}


def sensitivity(name: str) -> list[dict[str, Any]]:
    """Return how far sensitivities are from differences, over the largest component."""
    return [{"case": name, **row} for row in SENSITIVE[name]()]


def show_sensitivity(rows: list[dict[str, Any]]) -> None:
    """Print how far sensitivities are from differences."""
    for r in rows:
        bars = (
            ""
            if "bars" not in r
            else f", bars of both meshes {r['bars']:.2g}: {'within' if r['within'] else 'outside'}"
        )
        print(f"{r['case']:9s} {r['of']:18s} by {r['to']:26s} off {r['off']:.1e}{bars}")


# ---- controls that are sought


# Names of the parts: which targets, and how far beyond what volumes of 0.5 to 3 reach they lie [m].
SOUGHT = {**{f"reachable-{k}": 0.0 for k in range(3)}, **{f"unreachable-{k}": 0.02 for k in range(2)}}
BOUNDS, GRID = (0.5, 3.0), 9


def inverse(name: str) -> list[dict[str, Any]]:
    """Return how near solve_for comes to tips of the tower at random volumes, or to tips above what it reaches.

    Of the latter the least distance is known from splines through the tips on a grid of volumes.
    """
    away, rng, robot, out = SOUGHT[name], np.random.default_rng([7, *name.encode()]), tower(), []
    solver = replace(QUICK, tolerance=1e-8)
    least = (lambda goal: 0.0) if away == 0.0 else _nearest(robot, solver)
    for _ in range(10 if away == 0.0 else 5):
        ratios = rng.uniform(0.8, 2.5, 2)
        goal = geosim.solve(robot, Inflation(volume_ratio=ratios[None]), solver=solver).tip[-1] + np.array(
            [0.0, 0.0, away]
        )
        found = geosim.solve_for(robot, geosim.Goal.tip(goal), bounds=BOUNDS, solver=solver)
        known = {"distance": found.distance, "least": least(goal), "solves": found.solves}
        out.append({"case": name.partition("-")[0], "reached": bool(found.reached), **known})
    return out


def _nearest(robot: Any, solver: EnergyShapeSolver) -> Callable[[Any], float]:
    """Return the function of a tip that gives the least distance to it from tips within the bounds."""
    line = np.linspace(*BOUNDS, GRID)
    forth = [(a, b) for i, a in enumerate(line) for b in (line if i % 2 else line[::-1])]
    start = geosim.solve(robot, Inflation(volume_ratio=[[1.0, 1.0]]), solver=solver)
    tips = geosim.solve(robot, Inflation(volume_ratio=np.array(forth)), solver=solver, initial=start).tip
    order = np.lexsort(np.array(forth).T[::-1])
    splines = [RectBivariateSpline(line, line, axis.reshape(GRID, GRID)) for axis in tips[order].T]
    fine = np.linspace(*BOUNDS, 400)
    reached = np.stack([f(fine, fine) for f in splines], axis=-1)
    return lambda goal: float(np.linalg.norm(reached - goal, axis=-1).min())


def show_inverse(rows: list[dict[str, Any]]) -> None:
    """Print how many targets are reached, how near, and in how many solves."""
    for name in dict.fromkeys(r["case"] for r in rows):
        mine = [r for r in rows if r["case"] == name]
        beyond, solves = [1e3 * (r["distance"] - r["least"]) for r in mine], [r["solves"] for r in mine]
        print(
            f"{name}: {sum(r['reached'] for r in mine)} of {len(mine)} reached; mm beyond the least distance: median "
            f"{np.median(beyond):.4f}, largest {max(beyond):.4f}; solves median {np.median(solves):.0f}, most {max(solves)}"
        )


# ---- one command each


COMMANDS: dict[str, tuple[Any, Callable[[str], list[dict[str, Any]]], Callable[[list[dict[str, Any]]], None]]] = {
    "mesh": (CASES, mesh, show_mesh),
    "material": (MATERIALS, material, show_material),
    "adapt": (ADAPTED, adapted, show_adapted),
    "reality": (REALITY, reality, show_reality),
    "sensitivity": (SENSITIVE, sensitivity, show_sensitivity),
    "inverse": (SOUGHT, inverse, show_inverse),
}


def main() -> None:
    """Run what is asked for and not known yet, then print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*COMMANDS, "table"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("error_bars_rows"))
    given = parser.parse_intermixed_args()
    only_table = given.command == "table"
    chosen = (given.names or list(COMMANDS)) if only_table else [given.command]
    given.out.mkdir(parents=True, exist_ok=True)
    for command in chosen:
        names, run, show = COMMANDS[command]
        rows = []
        for name in names if only_table else given.names or names:
            path = given.out / f"{command}-{name}.json"
            if not path.exists() and not only_table:
                path.write_text(json.dumps(run(name)), encoding="utf-8")
            if path.exists():
                rows += json.loads(path.read_text(encoding="utf-8"))
        if rows:
            show(rows)


if __name__ == "__main__":
    main()
