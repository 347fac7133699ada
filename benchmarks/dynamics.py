"""Volumetric robots in time: what a step costs, and how exact it is.

    OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python benchmarks/dynamics.py [cost orders drift modes impact dome flex]

All by default; arguments of a section follow colons: `cost:1000,5000:p1`, `drift:100`.
"""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, replace
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


def move(body: Any, duration: float, environment: Any = ALONE, *, initial: Any = None, **options: Any) -> Any:
    """Motion of a body, from rest or from an equilibrium."""
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


def cap(rim: float, rise: float, wall: float, rings: int) -> tuple[Any, Any, Any, Any]:
    """Vertices and tets of a spherical cap, one layer thick, its upper faces, and each vertex's ring over the last one."""
    lattice = np.array([q for q in np.ndindex(2 * rings + 1, 2 * rings + 1) if rings <= sum(q) <= 3 * rings]) - rings
    flat = lattice @ np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    a, b, c = np.sort(Delaunay(flat).simplices, axis=1).T
    away = np.abs(np.column_stack([lattice, lattice.sum(axis=1)])).max(axis=1) / rings
    angle, sixth = np.arctan2(flat[:, 1], flat[:, 0]), np.pi / 3.0
    side, rest = np.divmod(angle + 1e-12, sixth)
    around = sixth * (side + np.sin(rest) / (np.sin(rest) + np.sin(sixth - rest)))  # even along each side of a hexagon
    radius = (rim**2 + rise**2) / (2.0 * rise)
    down = away * np.arcsin(rim / radius)
    out = np.stack([np.sin(down) * np.cos(around), np.sin(down) * np.sin(around), np.cos(down)], axis=1)
    vertices = np.vstack([(radius - 0.5 * wall) * out, (radius + 0.5 * wall) * out]) - (0.0, 0.0, radius - rise)
    n = len(out)
    prisms = [(a, b, c, c + n), (a, b, b + n, c + n), (a, a + n, b + n, c + n)]
    tets, _ = topology.oriented(vertices, np.concatenate([np.stack(tet, axis=1) for tet in prisms]))
    skin = topology.boundary_faces(tets)
    return vertices, tets, skin[(skin >= n).all(axis=1)], np.concatenate([away, away])


def dome(rings: str = "4") -> None:
    """A clamped shallow cap snaps under pressure: its limit, the time of the snap, and where it ends, P2.

    lambda = 2 (3 (1 - nu^2))^(1/4) sqrt(rise / wall) = 4.9: such caps snap with their symmetry kept [Huang 1964].
    """
    rise, wall, rim, modulus = 4e-3, 1e-3, 20e-3, 50e3
    vertices, tets, top, away = cap(rim, rise, wall, int(rings))
    rubber = geosim.NeoHookean(mu=modulus / 3.0, density=1070.0)
    body = geosim.VolumetricRobot.from_tets(vertices, tets, material=rubber, fixed=away > 1.0 - 1e-9, tip=away < 1e-9)
    before, after = (geosim.Environment(loads=geosim.Load.pressure(top, p), self_contact=False) for p in (16.0, 20.0))
    start = geosim.solve(body, geosim.Passive(), before)
    stops = geosim.solve(body, geosim.Passive(), after, initial=start.state, throw=False)
    snapped = geosim.solve(body, geosim.Passive(), after, solver=geosim.EnergyShapeSolver(follow="dynamic"))
    classical = 2.0 * modulus * (2.0 * wall * rise / (rim**2 + rise**2)) ** 2 / np.sqrt(3.0 * 0.75)
    limit = 16.0 + 4.0 * stops.partial.times[-1]
    print(
        f"dome: {len(tets)} tets, limit {limit:.1f} Pa, {limit / classical:.2f} of a sphere's; {stops.status.name}",
        flush=True,
    )
    for rule in ("generalized-alpha", "implicit-euler"):
        for dt in (2e-3, 2e-4):
            options = {"dt": dt, "integrator": rule, "damping": 60.0}
            result = move(body, 0.4, after, initial=start.state, **options)
            crossed = 1e3 * zero(result.times, result.tip[:, 2])
            miss = np.abs(result.frames[-1] - snapped.frames[-1]).max() / rise
            print(
                f"dome: {rule}, steps of {1e3 * dt:g} ms: crown through the rim at {crossed:.2f} ms, "
                f"end {miss:.1e} of the rise from the quasi-static one",
                flush=True,
            )


@dataclass(frozen=True)
class Case:
    """A bar that begins to swing (`mode` [m/s] at its tip), or a block that falls on a plane 5 mm below it."""

    size: tuple[float, float, float]
    cells: tuple[int, int, int]
    shear: float  # Pa, and the bulk modulus: Poisson's ratio is 1/8
    duration: float
    falls: bool

    def mesh(self, n: int) -> tuple[Any, Any]:
        """Vertices and tets, n times as many cells along each edge."""
        return brick(self.size, [n * c for c in self.cells])

    def speeds(self, vertices: Any) -> Any:
        """Velocities at the start (n, 3) [m/s]: the first mode of a cantilever, or rest."""
        velocity, root = np.zeros_like(vertices), 1.8751040687
        if not self.falls:
            x, s = root * vertices[:, 0] / self.size[0], (np.cosh(root) + np.cos(root)) / (np.sinh(root) + np.sin(root))
            velocity[:, 2] = 0.02 * (np.cosh(x) - np.cos(x) - s * (np.sinh(x) - np.sin(x)))
        return velocity

    def error(self, run: Any, exact: Any) -> float:
        """Error of the half period, or of the height of the mean vertex, over 5 mm, root of the mean of squares [%]."""
        (times, heights), (at, truth) = run, exact
        if self.falls:
            return 100.0 * float(np.sqrt(np.mean((np.interp(at, times, heights) - truth) ** 2))) / DROP
        return 100.0 * zero(times, heights) / zero(at, truth) - 100.0

    def height(self, vertices: Any, tets: Any) -> Any:
        """Weights of the vertices in the height that is compared: by mass, or the tip alone."""
        if not self.falls:
            tip = vertices[:, 0] > self.size[0] - 1e-9
            return tip / tip.sum()
        share = np.repeat(topology.tet_volumes(vertices, tets), 4)
        return np.bincount(tets.ravel(), share, len(vertices)) / share.sum()


DROP = 5e-3  # m
CASES = {
    "cantilever": Case((0.1, 0.01, 0.01), (10, 1, 1), 1e5, 0.24, falls=False),
    "block": Case((0.02, 0.02, 0.01), (2, 2, 1), 1e4, 0.06, falls=True),
}


def of_geosim(case: Case, n: int, dt: float, element: str) -> tuple[Any, Any]:
    """Times and heights by geosim, generalised alpha."""
    vertices, tets = case.mesh(n)
    body = robot(
        (vertices, tets), geosim.NeoHookean(case.shear, bulk_modulus=case.shear, density=1070.0), held=not case.falls
    )
    world = geosim.Environment(
        gravity=WEIGHT if case.falls else (0, 0, 0),
        obstacles=geosim.Obstacle.plane((0, 0, -DROP), (0, 0, 1)) if case.falls else (),
        self_contact=False,
    )
    options = {"dt": dt, "element": element, "velocity": case.speeds(vertices), "threads": 1}
    result = move(body, case.duration, world, spectral_radius=0.5 if case.falls else 0.9, **options)
    return result.times, (result.frames[:, :, 2] - vertices[:, 2]) @ case.height(vertices, tets)


def of_flex(case: Case, n: int, dt: float, _: str) -> tuple[Any, Any]:
    """Times and heights by a flex of MuJoCo; its integrator "discrete" alone is implicit in elasticity."""
    import mujoco

    vertices, tets = case.mesh(n)
    points, elements = (" ".join(f"{value:.9g}" for value in values.ravel()) for values in (vertices, tets))
    moves, gap = case.falls | (vertices[:, 0] > 1e-9), 1e-4  # m, radius of the vertices
    pins = "" if case.falls else f'<pin id="{" ".join(map(str, np.flatnonzero(~moves)))}"/>'
    floor = f'<geom type="plane" size="1 1 1" pos="0 0 {-DROP - gap}" solref="{2 * dt} 1"/>' if case.falls else ""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{dt}" integrator="discrete" gravity="0 0 {WEIGHT[2] if case.falls else 0}"/>'
        f'<size memory="1G"/><worldbody>{floor}<flexcomp name="body" type="direct" dim="3" radius="{gap}" '
        f'mass="{1070.0 * np.prod(case.size)}" point="{points}" element="{elements}"><contact selfcollide="none" '
        f'solref="{2 * dt} 1"/><elasticity young="{2.25 * case.shear}" poisson="0.125"/>{pins}</flexcomp></worldbody></mujoco>'
    )
    data, weights, heights = mujoco.MjData(model), case.height(vertices, tets), [0.0]
    data.qvel.reshape(-1, 3)[:] = case.speeds(vertices)[moves]
    for _step in range(round(case.duration / dt)):
        mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_flex(model, data)
        heights.append(float((data.flexvert_xpos[:, 2] - vertices[:, 2]) @ weights))
    return dt * np.arange(len(heights)), np.array(heights)


def of_newton(case: Case, n: int, dt: float, iterations: str) -> tuple[Any, Any]:
    """Times and heights by vertex block descent of Newton on the CPU."""
    import newton
    import warp

    vertices, tets = case.mesh(n)
    builder = newton.ModelBuilder()
    elastic = {
        "density": 1070.0,
        "k_mu": case.shear,
        "k_lambda": case.shear / 3.0,
        "k_damp": 0.0,
        "particle_radius": 1e-4,
    }
    start = {"pos": (0.0, 0.0, 0.0), "rot": warp.quat_identity(), "scale": 1.0, "vel": (0.0, 0.0, 0.0)}
    builder.add_soft_mesh(vertices=[warp.vec3(*v) for v in vertices], indices=tets.ravel().tolist(), **start, **elastic)
    if case.falls:
        builder.add_ground_plane(height=-DROP - 1e-4)
    else:
        for i in np.flatnonzero(vertices[:, 0] < 1e-9):
            builder.particle_mass[i] = 0.0
    builder.color()
    model = builder.finalize(device="cpu")
    model.set_gravity(WEIGHT if case.falls else (0.0, 0.0, 0.0))
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = 1e3, 0.0, 0.0
    options = {"particle_enable_self_contact": False, "particle_enable_tile_solve": False}
    solver = newton.solvers.SolverVBD(model=model, iterations=int(iterations), **options)
    now, new, control = model.state(), model.state(), model.control()
    now.particle_qd.assign(case.speeds(vertices).astype(np.float32))
    pipeline = newton.CollisionPipeline(model) if case.falls else None
    contacts, weights, heights = None if pipeline is None else pipeline.contacts(), case.height(vertices, tets), [0.0]
    for _step in range(round(case.duration / dt)):
        now.clear_forces()
        if pipeline is not None:
            pipeline.collide(now, contacts)
        solver.step(now, new, control, contacts, dt)
        now, new = new, now
        heights.append(float((now.particle_q.numpy()[:, 2] - vertices[:, 2]) @ weights))
    return dt * np.arange(len(heights)), np.array(heights)


# code, module, what it runs, and for each case (cells, step [s], element or iterations)
CODES: tuple[tuple[str, str, Any, dict[str, tuple[tuple[int, float, str], ...]]], ...] = (
    (
        "geosim",
        "geosim",
        of_geosim,
        {
            "cantilever": ((1, 10e-3, "p2"), (1, 5e-3, "p2"), (2, 5e-3, "p2"), (2, 5e-3, "p1"), (4, 5e-3, "p1")),
            "block": ((1, 2e-3, "p2"), (2, 1e-3, "p2"), (2, 1e-3, "p1"), (4, 1e-3, "p1")),
        },
    ),
    (
        "MuJoCo flex",
        "mujoco",
        of_flex,
        {
            "cantilever": ((2, 1e-3, ""), (4, 1e-3, ""), (6, 1e-3, ""), (6, 2.5e-4, "")),
            "block": ((1, 1e-3, ""), (2, 1e-3, ""), (4, 1e-3, ""), (4, 1e-4, ""), (8, 1e-4, "")),
        },
    ),
    (
        "Newton VBD",
        "newton",
        of_newton,
        {
            "cantilever": ((1, 5e-4, "10"), (2, 5e-4, "10"), (2, 5e-4, "100"), (4, 1e-3, "100")),
            "block": ((1, 5e-4, "10"), (2, 5e-4, "10"), (2, 2.5e-4, "40")),
        },
    ),
)


def flex(names: str = "cantilever,block") -> None:
    """Error against geosim on a fine mesh in short steps, for CPU seconds of model and steps with compiled kernels."""
    for name in names.split(","):
        case = CASES[name]
        fine, coarser = ((4, 1.25e-4), (3, 2.5e-4)) if case.falls else ((3, 1e-3), (2, 2e-3))
        exact = of_geosim(case, *fine, "p2")
        doubt = case.error(of_geosim(case, *coarser, "p2"), exact)
        print(f"flex: {name}: the reference moves by {doubt:+.2f} % from the next coarser mesh and step", flush=True)
        for code, module, run, sizes in CODES:
            if importlib.util.find_spec(module) is None:
                print(f"flex: {name}: {code} is left out: no module {module}", flush=True)
                continue
            run(replace(case, duration=0.01), 1, *sizes[name][0][1:])  # compiles
            for n, dt, kind in sizes[name]:
                begin = time.process_time()
                found = run(case, n, dt, kind)
                seconds = time.process_time() - begin
                print(
                    f"flex: {name}: {code} {kind}".rstrip()
                    + f", {6 * n**3 * np.prod(case.cells)} tets, steps of {1e3 * dt:g} ms: "
                    f"{case.error(found, exact):+.2f} % off, {seconds:.2f} CPU s",
                    flush=True,
                )


SECTIONS: dict[str, Any] = {
    "cost": cost,
    "orders": orders,
    "drift": drift,
    "modes": modes,
    "impact": impact,
    "dome": dome,
    "flex": flex,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        key, *arguments = name.split(":")  # cost:1000,5000:p1
        if key not in SECTIONS and key != "one":
            raise SystemExit(f"dynamics.py: {key!r} is no section; give some of {', '.join(SECTIONS)}")
        (one if key == "one" else SECTIONS[key])(*arguments)
