"""Rods and shells of [Choi2024] and [Lahoti] that `geosim demo` solves: each function returns the arguments of `solve`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq

from geosim.arrays import ArrayLike, Floats, Ints
from geosim.material.materials import LinearElastic
from geosim.model.actuation import Actuation, NaturalShape, Passive
from geosim.model.environment import EARTH_GRAVITY, Environment, Fluid, Load, Obstacle, Prescribed
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.section import Section
from geosim.rods.stepper import RodShellStepper


@dataclass(frozen=True)
class Case:
    """The arguments of `solve`."""

    robot: RodShellRobot
    actuation: Actuation
    environment: Environment
    solver: RodShellStepper

    def arguments(self) -> dict[str, Any]:
        """Return the case as keyword arguments of `solve`."""
        return {
            "robot": self.robot,
            "actuation": self.actuation,
            "environment": self.environment,
            "solver": self.solver,
        }


PUBLISHED_GRAVITY = (0.0, 0.0, -9.8)  # m/s^2, as published
PUBLISHED_FORCE = (175.0, 0.0, 7.0)  # N, on the tip of the PneuNet
PUBLISHED_CURVATURES = (15.70, 31.45, 47.15)  # 1/m, natural, of the PneuNet
PUBLISHED_RADIUS = 5e-3  # m, of the helix, the limbs and the fingers of [Choi2024]
FILM_INTERVAL = 0.02  # s between frames that are kept: 50 a second
FOLLOWED = RodShellStepper(dt="auto", integrator="generalized-alpha", restitution=1.0)  # steps that follow the error
FIRST_EDGE_CLAMPED: dict[str, Any] = {"fixed_vertices": [0, 1], "fixed_edges": [0]}  # the first edge, with its turning


def line(end: ArrayLike, nodes: int, start: ArrayLike = (0.0, 0.0, 0.0)) -> Floats:
    """Return equally spaced points [m], shape (nodes, 3)."""
    return np.linspace(np.asarray(start, dtype=float), np.asarray(end, dtype=float), nodes)


def cantilever(
    nodes: int = 201, youngs_modulus: float = 1e5, duration: float = 100.0, dt: float = 0.5, tip_velocity: float = 5e-3
) -> Case:
    """Vibration of a cantilever in its first mode, section IV-A of [Choi2024]: 1 m long, 2 cm radius, 500 kg/m^3."""
    s = brentq(lambda x: np.cos(x) * np.cosh(x) + 1.0, 1.0, 2.0) * np.linspace(0, 1, nodes)
    ratio = (np.cosh(s[-1]) + np.cos(s[-1])) / (np.sinh(s[-1]) + np.sin(s[-1]))
    mode = np.cosh(s) - np.cos(s) - ratio * (np.sinh(s) - np.sin(s))
    velocities = np.zeros((nodes, 3))
    velocities[:, 2] = tip_velocity * mode / mode[-1]
    robot = RodShellRobot(
        line((1, 0, 0), nodes),
        radius=0.02,
        rod_material=LinearElastic(youngs_modulus, 0.5, 500.0),
        velocities=velocities,
        planar="xz",
        **FIRST_EDGE_CLAMPED,
    )
    return Case(robot, Passive(duration), Environment(), RodShellStepper(dt=dt, integrator="implicit-midpoint"))


def helix(
    radius: float = PUBLISHED_RADIUS,
    youngs_modulus: float = 1e7,
    duration: float = 10.0,
    dt: float | None = 6e-3,
    nodes: int = 100,
) -> Case:
    """A hanging helix that oscillates under gravity, section IV-B of [Choi2024]: radius 2 cm, pitch 5 cm.

    `dt` None: steps that follow the error. At the authors' step and rule the energy doubles within 10 s.
    """
    helix_radius, rise = 0.02, 0.05 / (2 * np.pi)
    turn = np.linspace(0, 0.5 / np.hypot(helix_radius, rise), nodes)
    x = np.stack([helix_radius * np.cos(turn), helix_radius * np.sin(turn), -rise * turn], axis=1)
    robot = RodShellRobot(
        x, radius=radius, rod_material=LinearElastic(youngs_modulus, 0.5, 1273.52), **FIRST_EDGE_CLAMPED
    )
    return Case(
        robot,
        Passive(duration),
        Environment(gravity=PUBLISHED_GRAVITY),
        FOLLOWED if dt is None else RodShellStepper(dt=dt, integrator="implicit-midpoint"),
    )


def spider(
    duration: float = 2.0,
    dt: float | None = 2.5e-3,
    friction: float = 0.4,
    youngs_modulus: float = 3e6,
    nodes: int = 25,
) -> Case:
    """A four-legged spider dropped on an incline (tilted gravity), section V-A1 of [Choi2024] with the authors' parameters.

    Nine limbs of 0.1 m: a trunk, four thighs, four shins; `dt` None: the steps that the stepper chooses.
    """
    material = LinearElastic(youngs_modulus, 0.5, 1180.0)
    limb = 0.1  # m
    hip = np.array([0.0, 0.0, limb])
    knees = hip + limb * np.array([[1.0, 0, 0], [0, 1, 0], [0, -1, 0], [-1, 0, 0]])
    ways = [([0.0, 0.0, 2.0 * limb], hip), *((hip, knee) for knee in knees), *((knee, knee - hip) for knee in knees)]
    robot = RodShellRobot.from_limbs([Limb(start, end, nodes, PUBLISHED_RADIUS, material) for start, end in ways])
    floor = Obstacle.plane((0, 0, -limb), (0, 0, 1), friction=friction)
    return Case(
        robot,
        Passive(duration),
        Environment(gravity=(1.0, *PUBLISHED_GRAVITY[1:]), obstacles=[floor]),
        RodShellStepper(dt=dt, frame_interval=max(dt or 0.0, FILM_INTERVAL)),
    )


def entanglement(
    friction: float = 0.5,
    duration: float = 1.0,
    dt: float = 5e-3,
    fingers: int = 5,
    nodes: int = 60,
    largest_turn: float = 40.0,
    seed: int = 0,
) -> Case:
    """An active entanglement gripper, section V-A2 of [Choi2024]: random turning angles up to 40 degrees.

    Every bend draws one angle for each director; the natural shape is reached after two thirds of the duration, the authors'
    15 s, in a medium of 5 Pa s. Fingers are 15 mm apart.
    """
    material = LinearElastic(0.3e6, 0.5, 1200.0)
    angles = 2 * np.pi * np.arange(fingers) / fingers
    circle = 0.5 * 0.015 / np.sin(np.pi / fingers)  # m: through fingers whose axes are 15 mm apart
    tips = [(circle * np.cos(a), circle * np.sin(a), -0.3) for a in angles]
    limbs = [Limb((x, y, 0), (x, y, z), nodes, PUBLISHED_RADIUS, material) for x, y, z in tips]
    tops = nodes * np.arange(fingers)
    robot = RodShellRobot.from_limbs(
        limbs, fixed_vertices=np.concatenate([tops, tops + 1]), fixed_edges=(nodes - 1) * np.arange(fingers)
    )
    turn = np.deg2rad(np.random.default_rng(seed).uniform(0, largest_turn, (len(robot.bends), 2)))
    curvature = np.zeros((3, len(robot.bends), 2))
    curvature[1:] = 2 * np.tan(turn / 2) / robot.bends.length[:, None]
    return Case(
        robot,
        NaturalShape([0.0, 2.0 / 3.0 * duration, duration], curvature=curvature),
        Environment(gravity=PUBLISHED_GRAVITY, self_friction=friction, fluid=Fluid(density=0.0, viscosity=5.0)),
        RodShellStepper(dt=dt),
    )


def pneunet(curvature: float = PUBLISHED_CURVATURES[1], force: float = 0.0, nodes: int = 51) -> Case:
    """A pneumatic bending actuator as a rod with natural curvature [1/m], section 7.1 of [Lahoti]; `force` [N] on its tip.

    10 cm long, 1 mm radius, E = 20 GPa; `force` = 1 is the published (175, 0, 7) N.
    """
    x, metal = line((0.1, 0, 0), nodes), LinearElastic(20e9, 0.5, 1200.0)
    robot = RodShellRobot(x, radius=1e-3, rod_material=metal, planar="xz", **FIRST_EDGE_CLAMPED)
    loads = [Load.force([nodes - 1], force * np.array(PUBLISHED_FORCE))] if force else []
    return Case(
        robot,
        NaturalShape([0.0, 1.0], curvature=[0.0, curvature]),
        Environment(gravity=PUBLISHED_GRAVITY, loads=loads),
        RodShellStepper(static=True),
    )


def falling_rod(youngs_modulus: float = 2e6, duration: float = 0.5, dt: float | None = 1e-3) -> Case:
    """A tilted rod dropped from 5 cm on the ground, section 7.1 of [Lahoti]: E = 2 MPa or 2 GPa.

    Contact is the authors', of 20 N/m over 1 mm: its centre line sinks in where it lands. `dt` None: the steps that the stepper
    chooses.
    """
    drop = 0.05  # m
    x = line((drop, 0.5 * drop, drop), 41) + [0, 0, drop]
    robot = RodShellRobot(x, radius=1e-3, rod_material=LinearElastic(youngs_modulus, 0.3, 1500.0))
    ground = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.25)
    return Case(
        robot,
        Passive(duration),
        Environment(gravity=PUBLISHED_GRAVITY, obstacles=[ground]),
        RodShellStepper(dt=dt, frame_interval=max(dt or 0.0, 5e-3), contact_stiffness=20.0, contact_distance=1e-3),
    )


def parachute(rows: int = 4, duration: float = 3.0, dt: float = 5e-3, payload: float = 0.13) -> Case:
    """A hexagonal canopy of side 1 m with six ropes and a payload [kg] that falls in air, section 7.1 of [Lahoti]."""
    step, height = 1.0 / rows, np.sqrt(3) / 2 / rows
    span = range(-rows, rows + 1)
    number = {at: k for k, at in enumerate((i, j) for j in span for i in span if abs(i + j) <= rows)}
    canopy = np.array([[(i + 0.5 * j) * step, j * height, 0.0] for i, j in number])
    triangles = [
        [number[c] for c in corners]
        for i, j in number
        for corners in (((i, j), (i + 1, j), (i, j + 1)), ((i, j), (i + 1, j - 1), (i + 1, j)))
        if all(c in number for c in corners)
    ]
    corners = [number[c] for c in ((rows, 0), (0, rows), (-rows, rows), (-rows, 0), (0, -rows), (rows, -rows))]
    low, hung = np.array([0.0, 0.0, -1.5]), len(canopy)
    ropes = [np.linspace(canopy[corner], low, 6)[1:-1] for corner in corners]
    vertices = np.concatenate([canopy, [low], *ropes])
    edges: list[tuple[int, int]] = []
    for k, corner in enumerate(corners):
        edges += pairwise([corner, *(hung + 1 + 4 * k + np.arange(4)), hung])
    masses = np.where(np.arange(len(vertices)) == hung, payload, 0.0)
    robot = RodShellRobot(
        vertices,
        edges=edges,
        triangles=triangles,
        radius=1e-3,
        thickness=1e-3,
        masses=masses,
        rod_material=LinearElastic(1e7, 0.5, 1500.0),
        shell_material=LinearElastic(1e9, 0.3, 1500.0),
        shell_bending="hinge",  # as published
    )
    air = Fluid(density=1.0, drag_coefficient=10.0)
    return Case(
        robot,
        Passive(duration),
        Environment(gravity=PUBLISHED_GRAVITY, fluid=air, self_contact=False),
        RodShellStepper(dt=dt, frame_interval=max(dt, 0.05)),
    )


def pneunet_load_path() -> Case:
    """The three natural curvatures of Fig. 4 of [Lahoti] under gravity, then with (175, 0, 7) N on the tip.

    It unrolls to the first before the force comes: pulled from three quarters of a circle it would snap.
    """
    case = pneunet()
    tip = len(case.robot.vertices) - 1
    curvature = [*PUBLISHED_CURVATURES, PUBLISHED_CURVATURES[0], *PUBLISHED_CURVATURES]
    force = np.zeros((len(curvature), 3))
    force[-len(PUBLISHED_CURVATURES) :] = PUBLISHED_FORCE
    return Case(
        case.robot,
        NaturalShape(np.arange(1.0, len(curvature) + 1.0), curvature=curvature),
        Environment(gravity=PUBLISHED_GRAVITY, loads=[Load.force([tip], force)]),
        case.solver,
    )


def falling_rods(duration: float = 0.4) -> Case:
    """The two rods of Fig. 7 of [Lahoti] side by side: E = 2 MPa and 2 GPa, tilted, dropped from 5 cm on the ground."""
    soft, stiff = falling_rod(duration=duration, dt=None), falling_rod(2e9, duration, None)
    x = soft.robot.vertices
    n, e = len(x), len(soft.robot.edges)
    robot = RodShellRobot(
        np.concatenate([x, x + [0, 0.03, 0]]),
        edges=np.concatenate([soft.robot.edges, n + stiff.robot.edges]),
        radius=1e-3,
        rod_material=(soft.robot.materials[0],) * e + (stiff.robot.materials[0],) * e,
    )
    return Case(robot, Passive(duration), soft.environment, soft.solver)


def gravity_cantilever(kind: str = "mid-edge", youngs_modulus: float = 20e6, columns: int = 30) -> Case:
    """The cantilever of Fig. 8 of [Lahoti] under its weight: a "rod", or a shell of "hinge" or "mid-edge" bending.

    0.1 m x 2 cm x 1 mm; the weight comes in ten steps.
    """
    # the clamp ends half a step before the second column for rods and hinges, at it for normals; a strip of hinges bends like a
    # beam if nu = 1/3, a plate if nu = 0
    density, length, thickness, width = 1200.0, 0.1, 1e-3, 0.02  # kg/m^3, m, m, m
    material = LinearElastic(youngs_modulus, 0.0 if kind == "mid-edge" else 1 / 3, density)
    start = -length / columns * (1.0 if kind == "mid-edge" else 0.5)
    count = columns + (kind == "mid-edge")
    step = (length - start) / count
    # weight as a load, which a load path may raise
    if kind == "rod":
        x, section = line((length, 0, 0), count + 1, (start, 0, 0)), Section.rectangle(width, thickness)
        robot = RodShellRobot(x, radius=1e-3, rod_material=material, section=section, planar="xz", **FIRST_EDGE_CLAMPED)
        share = np.full(len(x), step)
        share[[0, -1]] = 0.5 * step
        weights = density * EARTH_GRAVITY * width * thickness * share
    else:
        x, triangles = crossed_grid(count, round(width / step), length - start, width)
        x = x + [start, 0, 0]
        robot = RodShellRobot(
            x,
            triangles=triangles,
            thickness=thickness,
            shell_material=material,
            shell_bending=kind,
            fixed_vertices=x[:, 0] < start + 1.01 * step,
        )
        thirds = np.repeat(robot.mesh.areas / 3.0, 3)
        weights = np.asarray(density * EARTH_GRAVITY * thickness * np.bincount(triangles.ravel(), thirds), dtype=float)
    ramp = np.linspace(0.1, 1.0, 10)
    loads = [Load.force([v], np.outer(ramp, [0.0, 0.0, -w])) for v, w in enumerate(weights)]
    return Case(robot, Passive(1.0, 10), Environment(loads=loads, self_contact=False), RodShellStepper(static=True))


def crossed_grid(columns: int, rows: int, length: float, width: float) -> tuple[Floats, Ints]:
    """Return vertices [m] and triangles of a rectangle in the xy plane, its diagonals crossing over in turn."""
    points = np.array(
        [[length * i / columns, width * j / rows, 0.0] for i in range(columns + 1) for j in range(rows + 1)]
    )
    triangles: list[tuple[int, int, int]] = []
    for i in range(columns):
        for j in range(rows):
            a, b = i * (rows + 1) + j, (i + 1) * (rows + 1) + j
            triangles += [(a, b, a + 1), (b, b + 1, a + 1)] if (i + j) % 2 else [(a, b, b + 1), (a, b + 1, a + 1)]
    return points, np.array(triangles, dtype=np.int64)


def flapping_plate(duration: float = 2.0, frequency: float = 1.0, amplitude: float = 0.05, dt: float = 2e-3) -> Case:
    """A plate of 30 x 10 cm in water, held along one side that heaves up and down."""
    columns, length = 18, 0.3  # m
    x, triangles = crossed_grid(columns, 6, length, 0.1)
    held = np.flatnonzero(x[:, 0] < length / columns + 1e-9)
    robot = RodShellRobot(
        x, triangles=triangles, thickness=2e-3, shell_material=LinearElastic(5e6, 0.4, 1100.0), shell_bending="mid-edge"
    )
    times = np.arange(1, round(duration / dt) + 1) * dt  # velocities that jump at coarser rows would shake the plate
    heave = np.zeros((len(times), 3))
    heave[:, 2] = amplitude * np.sin(2 * np.pi * frequency * times)
    water = Fluid(density=1000.0, drag_coefficient=1.0)
    return Case(
        robot,
        Passive(duration, len(times)),
        Environment(gravity=PUBLISHED_GRAVITY, fluid=water, prescribed=[Prescribed(held, heave)], self_contact=False),
        RodShellStepper(dt=dt, integrator="generalized-alpha", spectral_radius=1.0, frame_interval=FILM_INTERVAL),
    )


def manta(
    duration: float = 1.5,
    dt: float = 2.5e-3,
    rows: int = 10,
    thickness: float = 8e-3,
    frequency: float = 3.4,
    amplitude: float = 2 * np.pi / 3,
) -> Case:
    """A manta ray that flaps about its centre line, section 7.1 of [Lahoti]: span and length 1 m, E = 6 GPa, in water.

    The natural angles of the hinges on the centre line are amplitude sin(2 pi f t - lag), the lag from 0 at the leading end
    (y > 0) to pi at the trailing one. Thickness and stroke are not published, and the speed hangs on them. The authors' code has
    1 mm, wings of 1.73 m and angles to one side only. The way follows the step, since nothing but water damps so stiff a wing.
    """
    span = range(-rows, rows + 1)
    number = {at: k for k, at in enumerate((i, j) for i in span for j in range(rows - abs(i) + 1))}
    x = np.array([[0.5 * i / rows, (0.5 * abs(i) + j) / rows - 0.5, 0.0] for i, j in number])
    triangles = []
    for i in range(rows):
        for j in range(rows - i):
            for side in (1, -1):
                near, far = (number[side * i, j], number[side * i, j + 1]), number[side * (i + 1), j]
                triangles.append([near[0], far, near[1]][::side])
                if j + 1 < rows - i:
                    triangles.append([far, number[side * (i + 1), j + 1], near[1]][::side])
    skin = LinearElastic(6e9, 0.3, 1057.0)
    robot = RodShellRobot(x, triangles=triangles, thickness=thickness, shell_material=skin, shell_bending="hinge")
    ends = x[robot.mesh.hinges[:, :2]]
    centre = (np.abs(ends[:, :, 0]) < 1e-9).all(axis=1)
    lag = np.pi * (0.5 - ends[:, :, 1].mean(axis=1))

    def angles(time: float) -> Floats:
        size = amplitude * min(time / 0.25, 1.0)  # the stroke grows over the first quarter of a second
        return np.where(centre, size * np.sin(2 * np.pi * frequency * time - lag), 0.0)

    water = Fluid(density=1000.0, drag_coefficient=0.5)
    return Case(
        robot,
        NaturalShape([0.0, duration], hinge_angle=angles),
        Environment(gravity=PUBLISHED_GRAVITY, fluid=water, self_contact=False),
        RodShellStepper(dt=dt, frame_interval=FILM_INTERVAL),
    )


def draped_sheet(cells: int = 20, duration: float = 0.6, dt: float = 5e-3, friction: float = 0.4) -> Case:
    """A rubber sheet of 0.4 m and 2 mm that falls on a sphere of 0.1 m, drapes over it and touches itself in its folds."""
    side, ball_radius = 0.4, 0.1  # m
    x, triangles = crossed_grid(cells, cells, side, side)
    robot = RodShellRobot(
        x - [0.5 * side, 0.5 * side, -0.105],
        triangles=triangles,
        thickness=2e-3,
        shell_material=LinearElastic(2e5, 0.3, 1000.0),
    )
    ball = Obstacle.sphere((0, 0, 0), ball_radius, friction=friction)
    return Case(
        robot,
        Passive(duration),
        Environment(gravity=(0, 0, -EARTH_GRAVITY), obstacles=[ball], self_friction=friction),
        RodShellStepper(dt=dt, frame_interval=FILM_INTERVAL, damping=1.0),
    )


CASES = {
    "cantilever": cantilever,
    "helix": partial(helix, dt=None),
    "spider": partial(spider, duration=0.4, dt=None),  # at the authors' step the motion follows the step
    "entanglement": entanglement,
    "pneunet-rod": pneunet_load_path,
    "falling-rods": falling_rods,
    "parachute": parachute,
    "manta": manta,
    "flapping-plate": flapping_plate,
    "cantilever-rod": lambda: gravity_cantilever("rod"),
    "cantilever-hinge": lambda: gravity_cantilever("hinge"),
    "cantilever-mid-edge": gravity_cantilever,
    "draped-sheet": draped_sheet,
}
