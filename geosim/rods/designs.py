"""Robots and motions of [Choi2024] and [Lahoti], ready to solve: each function returns a `Case`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from geosim.actuation import Actuation, NaturalShape, Passive
from geosim.arrays import Floats
from geosim.environment import Environment, Fluid, Load, Obstacle, Prescribed
from geosim.material import LinearElastic
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.stepper import RodShellStepper

__all__ = ["CASES", "Case", "cantilever", "entanglement", "falling_rod", "helix", "knot", "parachute", "pneunet", "spider"]


@dataclass(frozen=True)
class Case:
    """The arguments of `solve`."""

    robot: RodShellRobot
    actuation: Actuation
    environment: Environment
    solver: RodShellStepper

    def arguments(self) -> dict[str, Any]:
        """Return the case as keyword arguments of `solve`."""
        return {"robot": self.robot, "actuation": self.actuation, "environment": self.environment,
                "solver": self.solver}


def line(start: Any, end: Any, nodes: int) -> Floats:
    """Return equally spaced points [m], shape (nodes, 3)."""
    return np.linspace(np.asarray(start, dtype=float), np.asarray(end, dtype=float), nodes)


def cantilever(nodes: int = 201, youngs_modulus: float = 1e5, duration: float = 100.0, dt: float = 0.5,
               tip_velocity: float = 5e-3) -> Case:
    """Vibration of a cantilever in its first mode, section IV-A of [Choi2024]: 1 m long, 2 cm radius, 500 kg/m^3."""
    root = 1.8751040687119611
    s = root * np.linspace(0, 1, nodes)
    ratio = (np.cosh(root) + np.cos(root)) / (np.sinh(root) + np.sin(root))
    mode = np.cosh(s) - np.cos(s) - ratio * (np.sinh(s) - np.sin(s))
    velocities = np.zeros((nodes, 3))
    velocities[:, 2] = tip_velocity * mode / mode[-1]
    robot = RodShellRobot(line((0, 0, 0), (1, 0, 0), nodes), radius=0.02,
                          rod_material=LinearElastic(youngs_modulus, 0.5, 500.0),
                          fixed_vertices=[0, 1], fixed_edges=[0], velocities=velocities, planar="xz")
    return Case(robot, Passive(duration), Environment(), RodShellStepper(dt=dt, integrator="implicit-midpoint"))


def helix(radius: float = 5e-3, youngs_modulus: float = 1e7, duration: float = 10.0, dt: float = 6e-3,
          nodes: int = 100) -> Case:
    """A hanging helix that oscillates under gravity, section IV-B of [Choi2024]: radius 2 cm, pitch 5 cm."""
    helix_radius, rise = 0.02, 0.05 / (2 * np.pi)
    turn = np.linspace(0, 0.5 / np.hypot(helix_radius, rise), nodes)
    x = np.stack([helix_radius * np.cos(turn), helix_radius * np.sin(turn), -rise * turn], axis=1)
    robot = RodShellRobot(x, radius=radius, rod_material=LinearElastic(youngs_modulus, 0.5, 1273.52),
                          fixed_vertices=[0, 1],
                          fixed_edges=[0])
    return Case(robot, Passive(duration), Environment(gravity=(0, 0, -9.8)),
                RodShellStepper(dt=dt, integrator="implicit-midpoint"))


def spider(duration: float = 2.0, dt: float = 5e-3, friction: float = 0.4, youngs_modulus: float = 1e6) -> Case:
    """A four-legged spider dropped on an incline (tilted gravity), section V-A1 of [Choi2024]."""
    material = LinearElastic(youngs_modulus, 0.5, 1000.0)
    limbs = []
    for angle in np.pi / 4 + np.pi / 2 * np.arange(4):
        out = np.array([np.cos(angle), np.sin(angle), 0.0])
        knee = np.array([0.0, 0.0, 0.12]) + 0.1 * out
        limbs.append(Limb((0, 0, 0.12), knee, 9, 5e-3, material))
        limbs.append(Limb(knee, np.array([0.0, 0.0, 0.03]) + 0.15 * out, 9, 5e-3, material))
    robot = RodShellRobot.from_limbs(limbs)
    floor = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=friction)
    return Case(robot, Passive(duration), Environment(gravity=(0.707, 0.707, -9.8), obstacles=[floor]),
                RodShellStepper(dt=dt, frame_interval=max(dt, 0.02)))


def entanglement(friction: float = 0.5, duration: float = 1.0, dt: float = 5e-3, fingers: int = 5, nodes: int = 60,
                 largest_turn: float = 40.0, seed: int = 0) -> Case:
    """An active entanglement gripper, section V-A2 of [Choi2024]: random turning angles up to 40 degrees.

    Every bend draws one angle for each director; the natural shape is reached after half of the duration.
    """
    material = LinearElastic(0.3e6, 0.5, 1200.0)
    angles = 2 * np.pi * np.arange(fingers) / fingers
    limbs = [Limb((0.05 * np.cos(a), 0.05 * np.sin(a), 0), (0.05 * np.cos(a), 0.05 * np.sin(a), -0.3), nodes, 5e-3,
                  material)
             for a in angles]
    tops = nodes * np.arange(fingers)
    robot = RodShellRobot.from_limbs(limbs, fixed_vertices=np.concatenate([tops, tops + 1]),
                                     fixed_edges=(nodes - 1) * np.arange(fingers))
    turn = np.deg2rad(np.random.default_rng(seed).uniform(0, largest_turn, (len(robot.bends), 2)))
    curvature = np.zeros((3, len(robot.bends), 2))
    curvature[1:] = 2 * np.tan(turn / 2) / robot.bends.length[:, None]
    return Case(robot, NaturalShape([0.0, 0.5 * duration, duration], curvature=curvature),
                Environment(gravity=(0, 0, -9.8), self_friction=friction), RodShellStepper(dt=dt))


def knot(nodes: int = 121, radius: float = 5e-3, pull: float = 0.3, duration: float = 1.0, dt: float = 5e-3,
         friction: float = 0.0, damping: float = 5.0) -> Case:
    """An open trefoil knot in a straight rod, pulled by `pull` [m] at each end until it is tight."""
    t = np.linspace(-2.05, 2.05, 4001)
    curve = np.stack([t**3 - 3 * t, 0.35 * (t**4 - 4 * t**2), -0.12 * (t**5 - 10 * t)], axis=1)
    curve[:, 2] -= curve[:, 0] * (curve[-1, 2] / curve[-1, 0])
    ends = [curve[0] + np.outer(np.linspace(2.0, 0, 400)[:-1], [-1.0, 0, 0]),
            curve, curve[-1] + np.outer(np.linspace(0, 2.0, 400)[1:], [1.0, 0, 0])]
    path = 0.1 * np.concatenate(ends)
    s = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    even = np.linspace(0, s[-1], nodes)
    x = np.stack([np.interp(even, s, path[:, j]) for j in range(3)], axis=1)
    robot = RodShellRobot(x, radius=radius, rod_material=LinearElastic(1e6, 0.5, 1000.0))
    straight = np.zeros((2, len(robot.bends), 2))
    motion = np.array([[0, 0, 0], [1, 0, 0]], dtype=float)
    supports = [Prescribed([0, 1], -pull * motion), Prescribed([nodes - 2, nodes - 1], pull * motion)]
    return Case(robot, NaturalShape([0.0, duration], curvature=straight),
                Environment(prescribed=supports, self_friction=friction), RodShellStepper(dt=dt, damping=damping))


def pneunet(curvature: float = 31.45, force: float = 0.0, nodes: int = 51) -> Case:
    """A pneumatic bending actuator as a rod with natural curvature [1/m], section 7.1 of [Lahoti]; `force` [N] on its tip.

    10 cm long, 1 mm radius, E = 20 GPa; `force` = 1 is the published (175, 0, 7) N.
    """
    x = line((0, 0, 0), (0.1, 0, 0), nodes)
    robot = RodShellRobot(x, radius=1e-3, rod_material=LinearElastic(20e9, 0.5, 1200.0), fixed_vertices=[0, 1],
                          fixed_edges=[0], planar="xz")
    loads = [Load.force([nodes - 1], force * np.array([175.0, 0.0, 7.0]))] if force else []
    return Case(robot, NaturalShape([0.0, 1.0], curvature=[0.0, curvature]),
                Environment(gravity=(0, 0, -9.8), loads=loads), RodShellStepper(static=True))


def falling_rod(youngs_modulus: float = 2e6, duration: float = 0.5, dt: float = 1e-3, tilt: float = 0.5) -> Case:
    """A tilted rod dropped from 5 cm on the ground, section 7.1 of [Lahoti]: E = 2 MPa or 2 GPa."""
    x = line((0, 0, 0), (0.1 * np.cos(tilt), 0, 0.1 * np.sin(tilt)), 31) + [0, 0, 0.051]
    robot = RodShellRobot(x, radius=1e-3, rod_material=LinearElastic(youngs_modulus, 0.3, 1500.0))
    ground = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.25)
    return Case(robot, Passive(duration), Environment(gravity=(0, 0, -9.8), obstacles=[ground]),
                RodShellStepper(dt=dt, frame_interval=max(dt, 5e-3)))


def parachute(rows: int = 4, duration: float = 3.0, dt: float = 0.01, payload: float = 0.13) -> Case:
    """A hexagonal canopy of side 1 m with six ropes and a payload [kg] that falls in air, section 7.1 of [Lahoti]."""
    step, height = 1.0 / rows, np.sqrt(3) / 2 / rows
    number: dict[tuple[int, int], int] = {}
    points: list[list[float]] = []
    for j in range(-rows, rows + 1):
        for i in range(-rows - min(j, 0), rows - max(j, 0) + 1):
            number[i, j] = len(points)
            points.append([(i + 0.5 * j) * step, j * height, 0.0])
    triangles = [[number[c] for c in corners] for i, j in number
                 for corners in (((i, j), (i + 1, j), (i, j + 1)), ((i, j), (i + 1, j - 1), (i + 1, j)))
                 if all(c in number for c in corners)]
    canopy = np.array(points)
    corners = [number[c] for c in ((rows, 0), (0, rows), (-rows, rows), (-rows, 0), (0, -rows), (rows, -rows))]
    low = np.array([0.0, 0.0, -1.5])
    vertices, edges = list(canopy), []
    hung = len(canopy)
    vertices.append(low)
    for corner in corners:
        chain = [corner]
        for point in np.linspace(canopy[corner], low, 6)[1:-1]:
            chain.append(len(vertices))
            vertices.append(point)
        chain.append(hung)
        edges += [list(pair) for pair in pairwise(chain)]
    masses = np.zeros(len(vertices))
    masses[hung] = payload
    robot = RodShellRobot(np.array(vertices), edges=edges, triangles=triangles, radius=1e-3, thickness=1e-3, masses=masses,
                          rod_material=LinearElastic(1e7, 0.5, 1500.0), shell_material=LinearElastic(1e9, 0.3, 1500.0))
    air = Fluid(density=1.0, drag_coefficient=10.0)
    return Case(robot, Passive(duration), Environment(gravity=(0, 0, -9.8), fluid=air, self_contact=False),
                RodShellStepper(dt=dt, frame_interval=max(dt, 0.05)))


CASES = {"cantilever": cantilever, "helix": helix, "spider": spider, "entanglement": entanglement, "knot": knot,
         "pneunet": pneunet, "falling-rod": falling_rod, "parachute": parachute}
