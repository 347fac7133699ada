"""Rods and shells held against what is known: tunnelling, the dropped rod, friction, membranes and curved shells.

python benchmarks/rods_truth.py [pairs] [obstacles] [drop] [order] [incline] [slender] [shells] [point_load] [--count N]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import pairwise, product

import numpy as np
import trimesh
from shells_accuracy import MESHES, mesh

from geosim import Environment, LinearElastic, Load, Obstacle, Passive, RodShellRobot, RodShellStepper, solve
from geosim.rods.balance import Balance
from geosim.rods.state import evaluate
from geosim.rods.system import with_free

RADIUS, DT = 1e-3, 5e-3  # m, s
KINDS = ("sphere", "bar", "box", "mesh")


def directions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two unit vectors that are far from parallel, and their common normal."""
    while True:
        u, w = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        if abs(u @ w) < 0.9:
            normal = np.cross(u, w)
            return u, w, normal / np.linalg.norm(normal)


# -- tunnelling --------------------------------------------------------------------------------------------------------


def flying_pair(seed: int, nodes: int = 6) -> RodShellRobot:
    """One rod at rest and one that flies at its middle by 1 .. 10 diameters a step."""
    rng = np.random.default_rng(seed)
    travel, length = rng.uniform(1, 10), 0.04
    u, w, normal = directions(rng)
    s = np.linspace(-length / 2, length / 2, nodes)[:, None]
    shift, other = 0.3 * length * rng.uniform(-1, 1, 2)
    x = np.vstack([(s + shift) * u, (s + other) * w + rng.uniform(3, 6) * RADIUS * normal])
    velocities = np.repeat([np.zeros(3), -travel * 2 * RADIUS / DT * normal], nodes, axis=0)
    chain = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
    material = LinearElastic(1e6, 0.5, 1000.0)
    return RodShellRobot(
        x, np.vstack([chain, chain + nodes]), radius=RADIUS, rod_material=material, velocities=velocities
    )


def crossings(a: np.ndarray, b: np.ndarray, nodes: int) -> int:
    """How often two chains of `nodes` vertices pass through each other on the straight way from a to b, by bisection."""
    count = 0
    for i in range(nodes - 1):
        for j in range(nodes, 2 * nodes - 1):
            ends = [i, i + 1, j, j + 1]

            def at(share: float, ends: list[int] = ends) -> np.ndarray:
                return (1 - share) * a[ends] + share * b[ends]

            def volume(y: np.ndarray) -> float:
                return float(np.linalg.det([y[1] - y[0], y[3] - y[2], y[2] - y[0]]))

            shares = np.linspace(0, 1, 9)
            values = [volume(at(s)) for s in shares]
            for k in np.flatnonzero(np.array(values[:-1]) * values[1:] < 0):
                low, high = shares[k], shares[k + 1]
                for _ in range(40):
                    middle = 0.5 * (low + high)
                    low, high = (low, middle) if values[k] * volume(at(middle)) <= 0 else (middle, high)
                y = at(low)
                place = np.linalg.lstsq(np.stack([y[1] - y[0], y[2] - y[3]], axis=1), y[2] - y[0], rcond=None)[0]
                count += bool(((place > 0) & (place < 1)).all())
    return count


def pair_passes(seed: int, integrator: str) -> tuple[bool, str]:
    """Whether the rods of a pair pass through each other, as counted here or by the solver, and the status."""
    robot = flying_pair(seed)
    result = solve(robot, Passive(6 * DT), solver=RodShellStepper(dt=DT, integrator=integrator), throw=False)
    through = sum(crossings(a, b, len(robot.vertices) // 2) for a, b in pairwise(result.frames))
    return bool(through > 0 or np.nanmax(result.crossings) > 0), result.status.name


def counted(what: str, outcomes: list[tuple[bool, str]], begin: float) -> None:
    """Print how many passed, the statuses, and the CPU seconds since `begin`."""
    statuses = dict(Counter(status for _, status in outcomes))
    passed, seconds = sum(passes for passes, _ in outcomes), time.process_time() - begin
    print(f"{len(outcomes)} random {what}: {passed} pass, {statuses}, {seconds:.0f} s", flush=True)


def pairs(count: int) -> None:
    """Random rods that fly at each other by up to 10 diameters a step."""
    for integrator in ("implicit-euler", "generalized-alpha"):
        begin = time.process_time()
        counted(f"pairs, {integrator}", [pair_passes(seed, integrator) for seed in range(count)], begin)


def obstacle(kind: str) -> Obstacle:
    """A small obstacle around the origin."""
    if kind == "sphere":
        return Obstacle.sphere((0, 0, 0), 3e-3)
    if kind == "bar":
        return Obstacle.cylinder((0, -0.05, 0), (0, 0.05, 0), 1.5e-3)
    if kind == "box":
        return Obstacle.box((-2e-3, -0.05, -2e-3), (2e-3, 0.05, 2e-3))
    return Obstacle.mesh(trimesh.creation.icosphere(subdivisions=2, radius=4e-3), units="m")


def flying_rod(seed: int) -> RodShellRobot:
    """A rod with edges of 20 mm that falls on the origin by 1 .. 10 diameters a step."""
    rng = np.random.default_rng(seed)
    angle, travel = rng.uniform(-0.5, 0.5), rng.uniform(1, 10)
    along = np.array([np.cos(angle), np.sin(angle), 0.0])
    x = np.linspace(-0.04, 0.04, 5)[:, None] * along + rng.uniform(-0.008, 0.008) * along + [0, 0, 0.012]
    velocities = np.tile([0, 0, -travel * 2 * RADIUS / DT], (5, 1))
    material = LinearElastic(1e7, 0.5, 1000.0)
    return RodShellRobot(x, radius=RADIUS, rod_material=material, velocities=velocities)


def rod_passes(kind: str, seed: int) -> tuple[bool, str]:
    """Whether a rod comes out right below an obstacle, which is still over it (it may slide off sideways), and the status."""
    environment = Environment(obstacles=[obstacle(kind)])
    result = solve(flying_rod(seed), Passive(4 * DT), environment, solver=RodShellStepper(dt=DT), throw=False)
    place = np.linspace(0, 4, 401)
    line = np.column_stack([np.interp(place, np.arange(5), v) for v in result.frames[-1].T])
    over = np.hypot(line[:, 0], line[:, 1]) < 1.5e-3
    return bool((line[over, 2] < 0).any()), result.status.name


def obstacles(count: int) -> None:
    """Random rods that fly at small obstacles: passed where they came out right below."""
    for kind in KINDS:
        begin = time.process_time()
        counted(f"rods on a {kind}", [rod_passes(kind, seed) for seed in range(count // len(KINDS))], begin)


# -- the dropped rod ---------------------------------------------------------------------------------------------------


def dropped(modulus: float, nodes: int = 31) -> RodShellRobot:
    """A clamped rod of 0.5 m and radius 5 mm."""
    x = np.stack([np.linspace(0, 0.5, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    material = LinearElastic(modulus, 0.5, 1000.0)
    return RodShellRobot(x, radius=5e-3, rod_material=material, fixed_vertices=[0, 1], fixed_edges=[0])


def drop(_: int) -> None:
    """Largest kinetic + elastic energy over that which the weight released, and the drift over it, after 1 .. 4 s."""
    for modulus in (1e6, 1e7):
        for dt in (20e-3, 10e-3, 5e-3, 2e-3, 1e-3, 1e-4):
            solver = RodShellStepper(dt=dt, integrator="generalized-alpha", frame_interval=max(dt, 5e-3))
            duration = 4.0 if dt > 1e-3 else 0.5
            result = solve(dropped(modulus), Passive(duration), Environment(gravity=(0, 0, -9.81)), solver=solver)
            released = np.ptp(result.extra["weight_energy"])
            total, drift = result.energies.max() / released, result.extra["drift"]
            print(
                f"E {modulus:.0e} dt {1e3 * dt:5.1f} ms, {duration} s: energy above that given {total:+8.1e}, drift "
                f"{drift.min() / released:+8.1e} .. {drift.max() / released:+8.1e}, {result.status.name}",
                flush=True,
            )


def order(_: int) -> None:
    """Order of the generalised-alpha rule on a rod that swings through a right angle, against Richardson's limit."""
    tips = {}
    for count in (50, 100, 200, 400, 800):
        solver = RodShellStepper(dt=0.2 / count, integrator="generalized-alpha", tolerance=1e-10, frame_interval=0.2)
        tips[count] = solve(dropped(1e6, 11), Passive(0.2), Environment(gravity=(0, 0, -9.81)), solver=solver).tip[-1]
    truth = tips[800] + (tips[800] - tips[400]) / 3
    errors = [np.linalg.norm(tips[n] - truth) for n in (50, 100, 200, 400)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    print("errors [m]", " ".join(f"{e:.2e}" for e in errors), " orders", " ".join(f"{o:.2f}" for o in orders))


# -- friction and statics ----------------------------------------------------------------------------------------------


def incline(_: int) -> None:
    """A rod on an incline within 1 % of the angle of friction, along and across it: what slides away, at rest and in motion."""
    x = np.stack([np.linspace(0, 0.2, 11), np.zeros(11), np.full(11, 5e-3)], axis=1)
    robot = RodShellRobot(x, radius=5e-3, rod_material=LinearElastic(1e6, 0.5, 1000.0))
    rules = {
        "static": RodShellStepper(static=True, smallest_dt=0.5),
        **{name: RodShellStepper(dt=0.02, integrator=name) for name in ("implicit-euler", "generalized-alpha")},
    }
    for mu in (0.1, 0.3, 0.8):
        floor = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=mu)
        for name, solver in rules.items():
            text = ""
            for axis, share in product((0, 1), (0.99, 1.01)):
                angle = np.arctan(share * mu)
                gravity = -9.81 * np.cos(angle) * np.eye(3)[2]
                gravity[axis] = 9.81 * np.sin(angle)
                surroundings = Environment(gravity=gravity, obstacles=[floor])
                result = solve(robot, Passive(2.0), surroundings, solver=solver, throw=False)
                fast = np.abs(result.extra["velocities"][-1, :, axis]).mean() if len(result.frames) else np.inf
                slides = not result.converged if solver.static else fast > 2.0 * solver.slip_velocity
                text += f"  {'xy'[axis]} {share:.2f} mu: {'slides' if slides else 'holds '}"
            print(f"incline, mu {mu}, {name:17s}{text}", flush=True)


def slender(_: int) -> None:
    """Newton iterations of cantilevers under the load F L^2 / EI at their ends, by length over radius."""
    x = np.stack([np.linspace(0, 1, 41), np.zeros(41), np.zeros(41)], axis=1)
    for ratio in (100, 1000, 3333):
        radius = 1.0 / ratio
        robot = RodShellRobot(
            x, radius=radius, rod_material=LinearElastic(1e7, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0]
        )
        counts = []
        for load in (1.0, 10.0, 100.0):
            force = Load.force([40], (0, 0, -load * 1e7 * np.pi * radius**4 / 4))
            surroundings = Environment(loads=[force])
            counts.append(len(solve(robot, Passive(), surroundings, solver=RodShellStepper(static=True)).trace))
        print(f"length over radius {ratio}: {counts} Newton iterations under F L^2 / EI = 1, 10, 100", flush=True)


# -- curved shells -----------------------------------------------------------------------------------------------------


def response(robot: RodShellRobot, planes: list[np.ndarray], force: np.ndarray) -> np.ndarray:
    """Linear displacements [m] under forces (n, 3) [N]; edges in the planes of symmetry (vertices, bool) keep their normals."""
    state = RodShellStepper().start(robot, Environment(self_contact=False))
    system, free = state.system, state.system.free.copy()
    for plane in planes:
        free[system.turns + np.flatnonzero(plane[robot.mesh.edges].all(axis=1))] = False
    system = with_free(system, free)
    balance = Balance(system, state, state.natural, np.zeros_like(state.q), 0.0)
    values, _ = balance.jacobian(state.q, evaluate(system, state, state.q))
    moved, given = np.zeros_like(state.q), np.concatenate([force.ravel(), np.zeros(robot.turning)])
    moved[system.pattern.order] = system.pattern.solve(values, given[system.pattern.order])[0]
    return moved[: system.turns].reshape(-1, 3)


def quarter(x: np.ndarray, triangles: np.ndarray, thick: float, material: LinearElastic, held) -> RodShellRobot:
    """A part of a shell with held components."""
    options = {"thickness": thick, "shell_material": material, "fixed_components": held, "allow_any_size": True}
    return RodShellRobot(x, triangles=triangles, **options)


def roof(kind: str, cells: int) -> tuple[float, int]:
    """Scordelis-Lo roof: drop of the middle of the free edge over 0.3024, and triangles of the whole."""
    radius, length, arc = 25.0, 50.0, np.radians(40) * 25.0
    flat, triangles = mesh(kind, (0, 0), (arc, length / 2), arc / cells)
    x = np.column_stack([radius * np.sin(flat[:, 0] / radius), flat[:, 1], radius * np.cos(flat[:, 0] / radius)])
    ridge, half, end = flat[:, 0] < 1e-9, flat[:, 1] > length / 2 - 1e-9, flat[:, 1] < 1e-9
    held = np.stack([ridge | end, half, end], axis=1)
    robot = quarter(x, triangles, 0.25, LinearElastic(4.32e8, 0.0, 1.0), held)
    force = np.zeros_like(x)
    np.add.at(force[:, 2], triangles, -90.0 / 3 * robot.mesh.areas[:, None])
    at = np.argmin(np.abs(flat[:, 0] - arc) + np.abs(flat[:, 1] - length / 2))
    return -response(robot, [ridge, half], force)[at, 2] / 0.3024, 4 * len(triangles)


GRADING = 3.5  # of sinh: cells under the load are a sixth as long as in an even mesh of as many


def pinched(kind: str, cells: int, grading: float = GRADING) -> tuple[float, int]:
    """Pinched cylinder with end diaphragms: displacement under the load over 1.8248e-5, and triangles of the whole.

    Cells grow away from the load: see `plate` for what a point load costs in even ones.
    """
    radius, length, arc = 300.0, 600.0, np.pi / 2 * 300.0
    flat, triangles = mesh(kind, (0, 0), (arc, length / 2), arc / cells)
    top, side = flat[:, 0] < 1e-9, flat[:, 0] > arc - 1e-9
    end, half = flat[:, 1] < 1e-9, flat[:, 1] > length / 2 - 1e-9
    if grading:
        across, along = (
            np.sinh(grading * v) / np.sinh(grading) for v in (flat[:, 0] / arc, 1 - flat[:, 1] / (length / 2))
        )
        flat = np.column_stack([arc * across, length / 2 * (1 - along)])
    x = np.column_stack([radius * np.sin(flat[:, 0] / radius), flat[:, 1], radius * np.cos(flat[:, 0] / radius)])
    robot = quarter(x, triangles, 3.0, LinearElastic(3e6, 0.3, 1.0), np.stack([top | end, half, side | end], axis=1))
    force, at = np.zeros_like(x), np.flatnonzero(top & half)[0]
    force[at, 2] = -0.25
    return -response(robot, [top, side, half], force)[at, 2] / 1.8248e-5, 8 * len(triangles)


def plate(kind: str, cells: int) -> float:
    """Clamped square plate under a point load: its displacement less 0.00561 P L^2 / D, in P h^2 / D for sides h of the mesh."""
    x, triangles = mesh(kind, (0, 0), (1, 1), 1 / cells)
    middle, rim = x[:, :2] < 1e-9, x[:, :2] > 1 - 1e-9
    held = np.column_stack([np.ones((len(x), 2), dtype=bool), rim.any(axis=1)])
    robot = quarter(x, triangles, 0.01, LinearElastic(1e6, 0.3, 1.0), held)
    force, at = np.zeros_like(x), np.flatnonzero(middle.all(axis=1))[0]
    force[at, 2] = -0.25
    moved = -response(robot, [*middle.T, *rim.T], force)[at, 2]
    return (moved * 1e6 * 0.01**3 / (12 * (1 - 0.3**2)) - 4 * 0.00561) * cells**2


def hemisphere(kind: str, cells: int) -> tuple[float, int]:
    """Hemisphere with a hole of 18 degrees under four forces: displacement over 0.093, and triangles of the whole."""
    flat, triangles = mesh(kind, (0, 0), (np.pi / 2, np.radians(72)), np.pi / 2 / cells)
    a, b = flat.T[:2]
    x = 10.0 * np.column_stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])
    one, other, low = a < 1e-9, a > np.pi / 2 - 1e-9, b < 1e-9
    robot = quarter(x, triangles, 0.04, LinearElastic(6.825e7, 0.3, 1.0), np.stack([other, one, one & low], axis=1))
    force = np.zeros_like(x)
    force[one & low, 0], force[other & low, 1] = 1.0, -1.0
    return float(response(robot, [one, other], force)[one & low, 0][0] / 0.093), 4 * len(triangles)


def shells(_: int) -> None:
    """Membrane and mid-edge bending together: displacements over the known ones."""
    for case, cells in ((roof, (12, 24, 36)), (pinched, (16, 28, 38)), (hemisphere, (16, 30, 48))):
        for kind in MESHES:
            found = [case(kind, n) for n in cells]
            print(f"{case.__name__:11} {kind:12} " + "  ".join(f"{r:.4f} ({n})" for r, n in found), flush=True)


def point_load(_: int) -> None:
    """What a point load costs: plates, and the pinched cylinder on even meshes."""
    for kind in MESHES:
        off = " ".join(f"{plate(kind, n):.3f}" for n in (8, 16, 32))
        even = "  ".join(f"{r:.4f} ({n})" for r, n in (pinched(kind, n, 0.0) for n in (16, 36)))
        print(f"plate {kind:12} too soft by {off} P h^2 / D (8, 16, 32 cells); cylinder, even mesh {even}", flush=True)


SECTIONS = {
    "pairs": pairs,
    "obstacles": obstacles,
    "drop": drop,
    "order": order,
    "incline": incline,
    "slender": slender,
    "shells": shells,
    "point_load": point_load,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=list(SECTIONS))
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    for section in given.sections or SECTIONS:
        SECTIONS[section](given.count)
