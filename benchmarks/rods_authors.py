"""The examples of [Choi2024] and [Lahoti] with the authors' parameters beside their numbers, in one table.

python benchmarks/rods_authors.py [NAME ...] [--long]

Names: cantilever, helix, friction, spider, entanglement, pneunet, falling, values, touching, parachute, canopy, manta, bending,
energy. References are
closed forms and the reference data of the folder `GEOSIM_REFERENCE_DATA`; rows that need it are left out without it. `--long`:
the entanglement gripper for the authors' 15 s, the spider at a fixed step of 0.1 ms, and falling rods at refined steps.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from geosim import Environment, LinearElastic, Load, Obstacle, Passive, Result, RodShellRobot, RodShellStepper, solve
from geosim.cli import rod_cases
from geosim.cli.rod_cases import FIRST_EDGE_CLAMPED, PUBLISHED_GRAVITY, Case, line
from geosim.rods import pace

DATA = Path(os.environ.get("GEOSIM_REFERENCE_DATA", "")) / "rods"
Rows = Iterator[tuple[str, float, float]]


def solved(case: Case, **solver: object) -> Result:
    """A case, perhaps with other options of its stepper."""
    return solve(**{**case.arguments(), "solver": replace(case.solver, **solver)}, throw=False)


def data(name: str) -> dict[str, np.ndarray]:
    """A reference file, or nothing where it is not there."""
    path = DATA / name
    return dict(np.load(path)) if os.environ.get("GEOSIM_REFERENCE_DATA") and path.exists() else {}


def rising(t: np.ndarray, z: np.ndarray) -> float:
    """Frequency [1/s] at which z goes up through its mean."""
    z = z - z.mean()
    up = np.flatnonzero((z[:-1] < 0) & (z[1:] >= 0))
    at = t[up] - z[up] * (t[up + 1] - t[up]) / (z[up + 1] - z[up])
    return float((len(at) - 1) / (at[-1] - at[0]))


def cantilever(_: bool) -> Rows:
    """First mode of a cantilever of which one edge is clamped."""
    case = rod_cases.cantilever(201, 1e5, 100.0, 0.5)
    length = 0.9975  # m: from the middle of the first bend
    bending, line_mass = 1e5 * np.pi * 0.02**4 / 4, 500.0 * np.pi * 0.02**2
    truth = 1.8751040687**2 / (2 * np.pi * length**2) * np.sqrt(bending / line_mass)
    for dt in (0.5, 0.05):
        result = solved(case, dt=dt)
        yield f"cantilever, dt {dt:g} s: frequency [1/s]", truth, rising(result.times, result.tip[:, 2])


def helix(_: bool) -> Rows:
    """The reference's helix: at rest and swinging."""
    rest, motion = data("b3_static_h5.npz"), DATA / "helix_configuration.txt"
    if not rest:
        return
    x = np.loadtxt(motion)[:, :3]
    robot = RodShellRobot(x, radius=5e-3, rod_material=LinearElastic(1e7, 0.5, 1273.52), **FIRST_EDGE_CLAMPED)
    weight = Environment(gravity=PUBLISHED_GRAVITY)
    still = solve(robot, Passive(), weight, solver=RodShellStepper(static=True))
    yield "helix at rest: height of the tip [m]", float(rest["x_eq"][-1, 2]), float(still.tip[-1, 2])
    swing = solve(robot, Passive(3.0), weight, solver=RodShellStepper(dt=2e-3, integrator="generalized-alpha"))
    yield "helix, dt 2 ms: frequency [1/s]", 4.658, rising(swing.times, swing.tip[:, 2])


def friction(_: bool) -> Rows:
    """A rod of 1 kg on the floor, pushed along by F against mu N: kinetic energy after 1.5 s, formula (18)."""
    for push in (3.0, 5.0, 6.0):
        x = line((1.0, 0, 0.025), 26, (0, 0, 0.025))
        robot = RodShellRobot(x, radius=0.025, rod_material=LinearElastic(1e5, 0.5, 509.2985))
        share = np.full(26, push / 25.0)
        share[[0, -1]] *= 0.5
        loads = [Load.force([v], (f, 0, 0)) for v, f in enumerate(share)]
        floor = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.4)
        surroundings = Environment(gravity=PUBLISHED_GRAVITY, obstacles=[floor], loads=loads)
        result = solve(robot, Passive(1.5), surroundings, solver=RodShellStepper(dt=5e-3, contact_distance=5e-4))
        truth = 0.5 * (max(push - 0.4 * 9.8, 0.0) * 1.5) ** 2
        yield f"friction, {push:g} N: kinetic energy [J]", truth, float(result.extra["kinetic_energy"][-1])


def landed(result: Result) -> tuple[float, float]:
    """The mean height at the end [m], and the energy that the time integration made over all energy given."""
    return float(result.frames[-1, :, 2].mean()), float(result.extra["drift"][-1] / result.extra["given_energy"][-1])


def spider(long: bool) -> Rows:
    """The spider at the authors' step, at the steps that are chosen, and at a fixed fine one."""
    runs = {"authors' dt 2.5 ms": solved(rod_cases.spider()), "default steps": solved(rod_cases.spider(dt=None))}
    if long:
        fine = {"dt": 1e-4, "integrator": "generalized-alpha", "restitution": 1.0, "spectral_radius": 1.0}
        runs["dt 0.1 ms"] = solved(rod_cases.spider(), **fine)
    truth = landed(runs["dt 0.1 ms"])[0] if long else -0.0745  # m, as `--long` prints
    for name, result in runs.items():
        height, drift = landed(result)
        yield f"spider, {name}: mean height after 2 s [m], 0.1 ms", truth, height
        yield f"spider, {name}: energy made", 0.0, drift
    short = rod_cases.spider(duration=0.4, dt=None)
    ends = [refined(short, finer).frames[-1].mean(axis=0) for finer in ((64.0, 1.0) if long else (1.0,))]
    truths = ends[0] if long else (0.0589, np.nan, -0.0326)  # m, as `--long` prints
    start = short.robot.vertices.mean(axis=0)
    yield "spider, default steps: slid after 0.4 s [m]", truths[0] - (start[0] if long else 0.0), ends[-1][0] - start[0]
    yield "spider, default steps: mean height after 0.4 s [m]", truths[2], ends[-1][2]


def entanglement(long: bool) -> Rows:
    """Five fingers that entangle: how deep they overlap over the radius."""
    result = solved(rod_cases.entanglement(duration=15.0 if long else 1.0))
    yield "entanglement: most contacts of a frame", np.nan, float(result.contact_count.max())
    yield "entanglement: deepest overlap over the radius", 0.0, float(np.nanmax(result.max_penetration) / 5e-3)


def pneunet(_: bool) -> Rows:
    """A PneuNet as a rod: the chord of an arc with its natural curvature, from the middle of the first bend."""
    for curvature in (15.70, 31.45, 47.15):
        result, free = solved(rod_cases.pneunet(curvature)), 0.1 - 0.5 * 0.002
        chord = 2 / curvature * abs(np.sin(0.5 * curvature * free))
        yield f"PneuNet, {curvature} / m: chord [m]", chord, float(np.linalg.norm(result.tip[-1] - [1e-3, 0, 0]))


def refined(case: Case, finer: float, **solver: object) -> Result:
    """A case at chosen steps whose errors are `finer` times smaller."""
    error, drift = pace.MAX_ERROR_RADII, pace.MAX_DRIFT
    pace.MAX_ERROR_RADII, pace.MAX_DRIFT = error / finer, drift / finer
    result = solved(case, **solver)
    pace.MAX_ERROR_RADII, pace.MAX_DRIFT = error, drift
    return result


def fallen(modulus: float, finer: float = 1.0) -> tuple[float, float, float]:
    """Mean height [m] of a falling rod after 0.2 s, the highest after landing, and energy made; errors `finer` times smaller."""
    result = refined(rod_cases.falling_rod(modulus, duration=0.3, dt=None), finer, frame_interval=2.5e-3)
    mass = result.state.system.mass[: result.state.system.turns : 3]
    height = result.frames[:, :, 2] @ mass / mass.sum()
    after = result.times > 0.12
    return float(np.interp(0.2, result.times, height)), float(height[after].max()), landed(result)[1]


def falling(long: bool) -> Rows:
    """Falling rods: height after 0.2 s and rebound at the default steps and at refined ones, and the energy made."""
    # m, as `--long` prints: errors a 64th
    refined = {2e6: (16.6e-3, 20.14e-3), 2e9: (39.58e-3, 41.43e-3)}
    for modulus, stored in refined.items():
        truth = fallen(modulus, 64.0)[:2] if long else stored
        height, rebound, made = fallen(modulus)
        yield f"falling rod, {modulus:.0e} Pa: mean height after 0.2 s [m]", truth[0], height
        yield f"falling rod, {modulus:.0e} Pa: highest mean after landing [m]", truth[1], rebound
        yield f"falling rod, {modulus:.0e} Pa: energy made", 0.0, made


def energy(_: bool) -> Rows:
    """What the time integration took in every demo in time by the formula of its rule, and what the budget leaves open.

    Both over all energy given.
    """
    for name, make in rod_cases.CASES.items():
        case = make()
        if not case.solver.static:
            extra = solved(case).extra
            given = extra["given_energy"][-1]
            yield f"energy, {name}: made by the rule", 0.0, float(-extra["numerical"][-1] / given)
            yield f"energy, {name}: left open", 0.0, float((extra["drift"] + extra["numerical"])[-1] / given)


def parachute(_: bool) -> Rows:
    """The parachute: speed at which drag bears its weight when the canopy were flat, and as it is."""
    case = rod_cases.parachute()
    result = solved(case)
    system = result.state.system
    flat = np.sqrt(2 * -system.weight.sum() / (10.0 * case.robot.mesh.areas.sum()))
    mass = system.mass[: system.turns : 3]
    yield (
        "parachute: speed at 3 s [m/s], flat canopy",
        float(flat),
        float(-result.extra["velocities"][-1, :, 2] @ mass / mass.sum()),
    )


def canopy(_: bool) -> Rows:
    """The parachute as in the authors' code: six rows, payload 0.2 m below; their hinges have no 1 - nu^2, and 10 ms."""
    case = rod_cases.parachute(rows=6, dt=1e-2)
    payload = int(np.argmax(case.robot.masses))
    for constants in ("plate", "matlab"):
        robot = replace(case.robot, vertices=case.robot.vertices * [1, 1, 0.2 / 1.5], shell_constants=constants)
        result = solved(replace(case, robot=robot))
        yield f"parachute, constants {constants}: payload at 3 s [m]", -6.605, float(result.frames[-1, payload, 2])


def manta(_: bool) -> Rows:
    """The manta ray with the stroke 2 pi / 3 and ten rows: how far its leading end is after 1.5 s, and how unsymmetrical."""
    alpha = {"integrator": "generalized-alpha", "spectral_radius": 1.0}
    rules = {"Euler, 2.5 ms": {}, "alpha, 1 ms": alpha | {"dt": 1e-3}, "alpha, 0.5 ms": alpha | {"dt": 5e-4}}
    case = rod_cases.manta()
    x = case.robot.vertices
    leading = int(np.argmax(x[:, 1]))
    mirror = np.linalg.norm(x[:, None] * [-1, 1, 1] - x, axis=2).argmin(axis=1)
    for name, options in rules.items():
        end = solved(case, **options).frames[-1]
        yield f"manta, {name}: way in 1.5 s [m]", np.nan, float(end[leading, 1] - x[leading, 1])  # none is published
        yield f"manta, {name}: off its mirror image [m]", 0.0, float(abs(end * [-1, 1, 1] - end[mirror]).max())


def touching(_: bool) -> Rows:
    """A rod of 1 kg that starts where it touches the floor: how high it rises and rests, over its radius."""
    x = line((1.0, 0, 0.025), 26, (0, 0, 0.025))
    robot = RodShellRobot(x, radius=0.025, rod_material=LinearElastic(1e5, 0.5, 509.2985))
    surroundings = Environment(
        gravity=PUBLISHED_GRAVITY, obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.4)]
    )
    height = solve(robot, Passive(0.5), surroundings).frames[:, :, 2] / 0.025 - 1.0
    yield "rod laid at touch: highest rise over its radius", 0.0, float(height.max())
    yield "rod laid at touch: height at rest over its radius", 0.0, float(height[-1].mean())


def values(_: bool) -> Rows:
    """The authors' constants of contact (20 N/m, 1 mm, 0.1 ms): how far the falling rod gets [s]."""
    result = solved(rod_cases.falling_rod(2e6, duration=0.2, dt=1e-4))
    print(f"  {result.status.name}: {result.message}")
    yield "falling rod, 0.1 ms: time reached [s]", 0.2, float(result.times[-1])


def bending(_: bool) -> Rows:
    """Cantilevers under their weight as rod, hinges and mid-edge normals, 20 MPa: the exact elastica."""
    for kind in ("rod", "hinge", "mid-edge"):
        result = solved(rod_cases.gravity_cantilever(kind))
        yield f"cantilever of {kind}: drop [m]", 60.42e-3, float(-result.tip[-1, 2])


CASES: dict[str, Callable[[bool], Rows]] = {
    f.__name__: f
    for f in (
        *(cantilever, helix, friction, spider, entanglement, pneunet, falling, values, touching),
        *(parachute, canopy, manta, bending, energy),
    )
}


def main() -> None:
    """Print one line a number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--long", action="store_true")
    given = parser.parse_args()
    for name in given.names:
        begin = time.process_time()
        for what, truth, ours in CASES[name](given.long):
            print(f"{what:58s} reference {truth:12.5g}  geosim {ours:12.5g}", flush=True)
        print(f"  ({name}: {time.process_time() - begin:.1f} CPU s)", flush=True)


if __name__ == "__main__":
    main()
