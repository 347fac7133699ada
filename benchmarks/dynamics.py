"""Volumetric robots in time: what a step costs, and how exact it is.

    OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python benchmarks/dynamics.py [cost orders drift modes impact dome]

All by default; arguments of a section follow colons: `cost:1000,5000:p1`, `drift:100`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from scipy.spatial import Delaunay

import geosim
from geosim.geometry import topology

SPLIT = ((0, 1, 3, 7), (0, 3, 2, 7), (0, 2, 6, 7), (0, 6, 4, 7), (0, 4, 5, 7), (0, 5, 1, 7))
SOFT = geosim.NeoHookean(mu=1e5, bulk_modulus=1e5, density=1070.0)
RUBBER = geosim.NeoHookean(mu=1e5, density=1070.0)
MODULUS = 2.25e5  # Pa, Young's modulus 9 K G / (3 K + G) of SOFT
RULES = ("implicit-euler", "implicit-midpoint", "generalized-alpha")
ALONE = geosim.Environment(self_contact=False)
WEIGHT = (0.0, 0.0, -9.81)


def brick(size: Any, cells: Any) -> tuple[Any, Any]:
    """Vertices and tets of a brick from the origin, its cells split into six tets."""
    axes = [np.linspace(0.0, s, c + 1) for s, c in zip(size, cells)]
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    index = np.arange(len(vertices)).reshape([c + 1 for c in cells])
    corners = [index[i : i + 2, j : j + 2, k : k + 2].ravel() for i, j, k in np.ndindex(*cells)]
    tets = np.array([corner[list(t)] for corner in corners for t in SPLIT])
    return vertices, np.where((topology.tet_volumes(vertices, tets) < 0)[:, None], tets[:, [0, 2, 1, 3]], tets)


def robot(mesh: tuple[Any, Any], material: Any = SOFT, *, held: bool = False) -> Any:
    """Robot of a mesh, free or held at x = 0, its tip at the largest x."""
    vertices, tets = mesh
    x = vertices[:, 0]
    fixed, tip = np.flatnonzero(x < 1e-9), np.flatnonzero(x > x.max() - 1e-9)
    return geosim.VolumetricRobot.from_tets(vertices, tets, material=material, fixed=fixed if held else None, tip=tip)


def move(body: Any, duration: float, environment: Any = ALONE, initial: Any = None, **options: Any) -> Any:
    """Motion of a body."""
    stepper = geosim.EnergyShapeStepper(**options)
    return geosim.solve(body, geosim.Passive(duration), environment, solver=stepper, initial=initial)


def zero(times: Any, values: Any) -> float:
    """Time at which values first change their sign after the start."""
    i = np.flatnonzero(values[1:-1] * values[2:] < 0.0)[0] + 1
    return float(times[i] - values[i] * (times[i + 1] - times[i]) / (values[i + 1] - values[i]))


def cost(sizes: str = "1000,5000,20000", elements: str = "p1,p2", kinds: str = "free,contact") -> None:
    """Every case in a process of its own, for its memory."""
    for size in sizes.split(","):
        for element in elements.split(","):
            for kind in kinds.split(","):
                subprocess.run([sys.executable, __file__, f"one:{size}:{element}:{kind}"], check=True)


def one(size: str, element: str, kind: str) -> None:
    """A bar that bends by its weight, or a brick that is pressed on a floor: ten steps of 2 ms of implicit Euler."""
    n = max(1, round((float(size) / 6.0 / 4.0) ** (1.0 / 3.0)))
    cells = (max(1, round(float(size) / 6.0 / n**2)), n, n)
    touch = kind == "contact"
    body = robot(brick((0.02 * cells[0] / n, 0.02, 0.02), cells), RUBBER, held=not touch)
    floor = geosim.Obstacle.plane((0, 0, -1e-3), (0, 0, 1)) if touch else ()
    environment = geosim.Environment(gravity=WEIGHT, obstacles=floor, self_contact=False)
    steps, dt = 10, 2e-3
    stepper = geosim.EnergyShapeStepper(
        dt=dt, integrator="implicit-euler", element=element, velocity=(0, 0, -0.5) if touch else (0, 0, 0), threads=1
    )
    state = stepper.start(body, environment)
    commands = stepper.commands(body, geosim.Passive(steps * dt))
    state, _ = stepper.step(state, commands[0])
    begin, records = time.process_time(), []
    for command in commands[1:]:
        state, report = stepper.step(state, command)
        assert report.reached, report.message
        records += report.records
    seconds, count = time.process_time() - begin, steps - 1
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"cost: {len(body.body_tets)} {element} tets, {kind}: {seconds / count:.3f} CPU s a step, "
        f"{len(records) / count:.1f} Newton iterations, {sum(r['factorisations'] for r in records) / count:.1f} factorisations, "
        f"{memory:.2f} GB at most",
        flush=True,
    )


def bent(held: Any) -> Any:
    """Velocities [m/s] of a bar in the shape of its first mode, as its weight bends it."""
    weight = geosim.Environment(gravity=(0.0, 0.0, -0.05), self_contact=False)
    still = geosim.solve(held, geosim.Passive(), weight, solver=geosim.EnergyShapeSolver(element="p1", tolerance=1e-10))
    sag = still.frames[-1] - held.vertices
    return 0.02 * sag / np.abs(sag).max()


def orders(elements: str = "p1,p2") -> None:
    """Errors at the end of halved steps; coarse steps of implicit Euler first take what fine steps could not follow."""
    for name, material in (("compressible", SOFT), ("incompressible", RUBBER)):
        for element in elements.split(","):
            body = robot(brick((0.06, 0.01, 0.01), (6, 1, 1)), material, held=True)
            fixed = {"element": element, "tolerance": 1e-9}
            smooth = move(body, 0.03, dt=1e-3, integrator="implicit-euler", velocity=bent(body), **fixed)
            fixed |= {"initial": smooth, "frame_interval": 0.06}
            exact = move(body, 0.06, dt=0.06 / 1024, integrator="implicit-midpoint", **fixed).frames[-1]
            for rule in RULES:
                ends = [move(body, 0.06, dt=0.06 / steps, integrator=rule, **fixed).frames[-1] for steps in (64, 128)]
                coarse, fine = (float(np.abs(end - exact).max()) for end in ends)
                print(f"orders: {name} {element}, {rule}: {np.log2(coarse / fine):.2f}", flush=True)


def drift(periods: str = "1000") -> None:
    """The midpoint rule keeps the energy of a bar that vibrates in its first mode."""
    body = robot(brick((0.06, 0.01, 0.01), (6, 1, 1)), held=True)
    options = {"element": "p1", "tolerance": 1e-9, "velocity": bent(body), "integrator": "implicit-midpoint"}
    first = move(body, 0.15, dt=3e-3, **options)
    period = 2.0 * zero(first.times, first.tip[:, 2] - first.tip[0, 2])
    duration = float(periods) * period
    result = move(body, duration, dt=period / 30.0, frame_interval=period, **options)
    worst = np.abs(result.extra["drift"]).max() / result.extra["kinetic_energy"][0]
    print(f"drift: {periods} periods of {1e3 * period:.1f} ms, 30 steps each: {worst:.1e} of the energy at the start")


def ring(radius: float, side: float, around: int) -> tuple[Any, Any]:
    """Ring of square section: a brick that is bent, its ends joined."""
    vertices, tets = brick((1.0, side, side), (around, 1, 1))
    angle, r = 2.0 * np.pi * vertices[:, 0], radius - 0.5 * side + vertices[:, 1]
    points = np.stack([r * np.cos(angle), -r * np.sin(angle), vertices[:, 2]], axis=1)
    found, number = np.unique(np.round(points, 9), axis=0, return_inverse=True)
    tets = number.ravel()[tets]
    return found, np.where((topology.tet_volumes(found, tets) < 0)[:, None], tets[:, [0, 2, 1, 3]], tets)


def modes(steps: str = "60") -> None:
    """First half period of a cantilever [Rayleigh] and of the oval mode of free rings [Hoppe 1871], P2."""
    length, side, root = 0.1, 0.006, 1.8751040687
    body = robot(brick((length, side, side), (12, 1, 1)), held=True)
    x, s = root * body.vertices[:, 0] / length, (np.cosh(root) + np.cos(root)) / (np.sinh(root) + np.sin(root))
    velocity = np.zeros_like(body.vertices)
    velocity[:, 2] = 0.02 * (np.cosh(x) - np.cos(x) - s * (np.sinh(x) - np.sin(x)))
    period = 2.0 * np.pi / (root**2 * np.sqrt(MODULUS * side**2 / 12.0 / (1070.0 * length**4)))
    options = {"dt": period / float(steps), "spectral_radius": 0.9}
    found = move(body, 0.55 * period, velocity=velocity, **options)
    half = zero(found.times, found.tip[:, 2] - found.tip[0, 2])
    print(f"modes: cantilever: period {200.0 * half / period - 100.0:+.2f} % off", flush=True)
    for radius, side, around in ((0.03, 0.003, 24), (0.03, 0.003, 48), (0.03, 0.0015, 48)):
        free = robot(ring(radius, side, around))
        angle = np.arctan2(free.vertices[:, 1], free.vertices[:, 0])
        out, along = np.stack([np.cos(angle), np.sin(angle)]), np.stack([-np.sin(angle), np.cos(angle)])
        velocity = np.zeros_like(free.vertices)
        velocity[:, :2] = 0.02 * (np.cos(2 * angle) * out - 0.5 * np.sin(2 * angle) * along).T
        mean = radius * around / np.pi * np.sin(np.pi / around)  # of the polygon the radius of equal length counts
        period = 2.0 * np.pi / np.sqrt(7.2 * MODULUS * side**2 / 12.0 / (1070.0 * mean**4))
        options = {"dt": period / float(steps), "spectral_radius": 0.9}
        found = move(free, 0.55 * period, velocity=velocity, **options)
        half = zero(found.times, np.einsum("kni,ni->k", found.frames - found.frames[0], velocity))
        print(
            f"modes: ring of {around} cells, side over radius {side / radius:.2f}: "
            f"period {200.0 * half / period - 100.0:+.2f} % off",
            flush=True,
        )


def ball(radius: float, cells: int) -> tuple[Any, Any]:
    """Ball about the origin: a cube whose shells become spheres."""
    vertices, tets = brick((2.0, 2.0, 2.0), (cells, cells, cells))
    vertices -= 1.0
    size = np.linalg.norm(vertices, axis=1)
    vertices *= (radius * np.abs(vertices).max(axis=1) / np.where(size > 0.0, size, 1.0))[:, None]
    return vertices, np.where((topology.tet_volumes(vertices, tets) < 0)[:, None], tets[:, [0, 2, 1, 3]], tets)


def impact(steps: str = "5e-4,1e-4") -> None:
    """Restitution of a ball on a smooth floor: momentum after over before, by rule, viscosity and damping by mass."""
    floor = geosim.Obstacle.plane((0, 0, -10.2e-3), (0, 0, 1))
    environment = geosim.Environment(obstacles=floor, self_contact=False)
    for rule in RULES:
        for dt in steps.split(","):
            kept = []
            for viscosity, damping in ((0.0, 0.0), (2.0, 0.0), (8.0, 0.0), (0.0, 10.0), (0.0, 30.0)):
                rubber = geosim.NeoHookean(mu=1e5, bulk_modulus=1e6, density=1000.0, viscosity=viscosity)
                options = {"element": "p1", "integrator": rule, "damping": damping, "velocity": (0.0, 0.0, -0.5)}
                result = move(robot(ball(0.01, 4), rubber), 0.02, environment, dt=float(dt), **options)
                push = result.extra["momentum"][:, 2]
                kept.append(f"{-push.max() / push[0]:.3f}")
            print(
                f"impact: {rule}, dt {1e3 * float(dt):g} ms: restitution {kept[0]}, with 2 and 8 Pa s {kept[1]} {kept[2]}, "
                f"with 10 and 30 1/s {kept[3]} {kept[4]}",
                flush=True,
            )


def cap(radius: float, base: float, wall: float, rings: int) -> tuple[Any, Any, Any, Any]:
    """Vertices, tets, upper faces and rim of a spherical cap: rings of a disc, triangulated and extruded."""
    plan = np.zeros((1, 2))
    for k in range(1, rings + 1):
        angle = 2.0 * np.pi * (np.arange(6 * k) + 0.5 * (k % 2)) / (6 * k)
        plan = np.vstack([plan, base * k / rings * np.stack([np.cos(angle), np.sin(angle)], axis=1)])
    faces, count = np.sort(Delaunay(plan).simplices, axis=1), len(plan)
    tets = np.vstack([faces[:, [0, 1, 2, 2]], faces[:, [0, 1, 1, 2]], faces[:, [0, 0, 1, 2]]])
    tets += np.repeat(np.array([[0, 0, 0, count], [0, 0, count, count], [0, count, count, count]]), len(faces), axis=0)
    out = np.linalg.norm(plan, axis=1)
    middle = np.column_stack([plan, np.sqrt(radius**2 - out**2)])
    vertices = np.vstack([middle * (1.0 - 0.5 * wall / radius), middle * (1.0 + 0.5 * wall / radius)])
    vertices[:, 2] -= np.sqrt(radius**2 - base**2)
    tets = np.where((topology.tet_volumes(vertices, tets) < 0)[:, None], tets[:, [0, 2, 1, 3]], tets)
    return vertices, tets, faces + count, np.tile(out > base * (1.0 - 1e-9), 2)


def dome(rings: str = "5") -> None:
    """A clamped dome under more pressure than it bears: when it snaps, where it rests, and where statics say that it does."""
    radius, base, wall, pressure = 0.04, 0.02, 1.2e-3, 900.0
    vertices, tets, above, rim = cap(radius, base, wall, int(rings))
    body = geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(mu=2e5, density=1070.0), fixed=rim, tip=[len(vertices) // 2]
    )
    environment = geosim.Environment(loads=geosim.Load.pressure(above, pressure), self_contact=False)
    still = geosim.solve(body, geosim.Passive(), environment, solver=geosim.EnergyShapeSolver(follow="dynamic"))
    rise, least = radius - np.sqrt(radius**2 - base**2), still.tip[-1, 2] - vertices[body.tip[0], 2]
    print(f"dome: rise {1e3 * rise:.1f} mm, {len(tets)} p2 tets; statics: crown moves {1e3 * least:.3f} mm", flush=True)
    for rule, dt in (("generalized-alpha", 2e-4), ("generalized-alpha", 2e-5), ("implicit-euler", 2e-4)):
        begin = time.process_time()
        moved = move(body, 0.15, environment, dt=dt, integrator=rule, damping=150.0, frame_interval=2e-4)
        crown = moved.tip[:, 2] - moved.tip[0, 2]
        snap = zero(moved.times, crown + rise)
        off = 1e3 * float(np.abs(moved.frames[-1] - still.frames[-1]).max())
        print(
            f"dome: {rule}, dt {1e3 * dt:g} ms: snaps after {1e3 * snap:.3f} ms, at rest {off:.1e} mm off, "
            f"{time.process_time() - begin:.0f} CPU s",
            flush=True,
        )


SECTIONS: dict[str, Any] = {
    "cost": cost,
    "orders": orders,
    "drift": drift,
    "modes": modes,
    "impact": impact,
    "dome": dome,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        key, *arguments = name.split(":")  # cost:1000,5000:p1
        if key not in SECTIONS and key != "one":
            raise SystemExit(f"dynamics.py: {key!r} is no section; give some of {', '.join(SECTIONS)}")
        (one if key == "one" else SECTIONS[key])(*arguments)
