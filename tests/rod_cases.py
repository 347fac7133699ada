"""Cases of rods that tests and benchmarks share and `geosim demo` does not solve: a knot, an arm with cables, a gripper."""

from __future__ import annotations

import numpy as np
import trimesh

from geosim.arrays import choice
from geosim.cli.rod_cases import FIRST_EDGE_CLAMPED, Case, line
from geosim.material.materials import LinearElastic
from geosim.model.actuation import CableTensions, NaturalShape, Passive
from geosim.model.cable import Cable
from geosim.model.environment import Environment, Obstacle, Prescribed
from geosim.rods.objects import with_object
from geosim.rods.robot import RodShellRobot
from geosim.rods.stepper import RodShellStepper


def knot(
    nodes: int = 121,
    radius: float = 5e-3,
    pull: float = 0.3,
    duration: float = 1.0,
    dt: float = 5e-3,
    friction: float = 0.0,
    damping: float = 5.0,
) -> Case:
    """An open trefoil knot in a straight rod, pulled by `pull` [m] at each end until it is tight."""
    t = np.linspace(-2.05, 2.05, 4001)
    curve = np.stack([t**3 - 3 * t, 0.35 * (t**4 - 4 * t**2), -0.12 * (t**5 - 10 * t)], axis=1)
    curve[:, 2] -= curve[:, 0] * (curve[-1, 2] / curve[-1, 0])
    path = 0.1 * np.concatenate([[curve[0] - [2.0, 0, 0]], curve, [curve[-1] + [2.0, 0, 0]]])
    s = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    x = np.stack([np.interp(np.linspace(0, s[-1], nodes), s, path[:, j]) for j in range(3)], axis=1)
    robot = RodShellRobot(x, radius=radius, rod_material=LinearElastic(1e6, 0.5, 1000.0))
    straight = np.zeros((2, len(robot.bends), 2))
    motion = np.array([[0, 0, 0], [1, 0, 0]], dtype=float)
    supports = [Prescribed([0, 1], -pull * motion), Prescribed([nodes - 2, nodes - 1], pull * motion)]
    return Case(
        robot,
        NaturalShape([0.0, duration], curvature=straight),
        Environment(prescribed=supports, self_friction=friction),
        RodShellStepper(dt=dt, damping=damping),
    )


def tendon_arm(tension: float = 0.25, friction: float = 0.1, rows: int = 40) -> Case:
    """An arm of 0.2 m pulled by three cables in turn, 8 mm off its centre line, through guides every centimetre."""
    x, led = line((0.2, 0, 0), 41), np.linspace(2.5e-3, 0.2, 21)
    around = 2 * np.pi * np.arange(3) / 3
    guides = [np.stack([led, 0 * led + 8e-3 * np.cos(a), 0 * led + 8e-3 * np.sin(a)], axis=1) for a in around]
    robot = RodShellRobot(
        x,
        radius=5e-3,
        rod_material=LinearElastic(1e6, 0.5, 1000.0),
        cables=[Cable(points, friction=friction) for points in guides],
        **FIRST_EDGE_CLAMPED,
    )
    turn = 2 * np.pi * np.arange(1, rows + 1) / rows
    pull = tension * np.maximum(np.cos(turn[:, None] - around), 0.0)
    return Case(robot, CableTensions(pull), Environment(), RodShellStepper(static=True))


def gripper(held: str = "ball", mass: float = 0.012, rise: float = 0.03, dt: float = 5e-3) -> Case:
    """Four rods with cables on their inside that close about a ball or a cube of 40 mm, and lift it from the floor.

    Their ends press by N each from the distance r of the axis. A grip that turns about it by a small angle gives way by N r a,
    and four rods hold it by k r^2 a, k = 3 E I / L^3, three times as much. Of fingers of 0.14 m and 2 MPa, which hold a sixth of
    N r, a cube that is turned by rounding gets loose. What is held is what follows the rods in the vertices of the robot, see
    `geosim.rods.objects`.
    """
    nodes, reach = 12, 0.03
    line4 = line((0, 0, 0.02), nodes, (0, 0, 0.12))
    led = 0.5 * (line4[1:] + line4[:-1])
    inward = -np.array([[np.cos(a), np.sin(a), 0] for a in 0.5 * np.pi * np.arange(4)])
    chain = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
    rods = RodShellRobot(
        np.concatenate([line4 - reach * d for d in inward]),
        np.concatenate([chain + nodes * k for k in range(4)]),
        radius=5e-3,
        rod_material=LinearElastic(1e7, 0.5, 1100.0),
        fixed_vertices=np.concatenate([[nodes * k, nodes * k + 1] for k in range(4)]),
        fixed_edges=[(nodes - 1) * k for k in range(4)],
        cables=[Cable(led - (reach - 7e-3) * d) for d in inward],
    )
    choice(held, "held", ("ball", "cube"))
    surface = trimesh.creation.icosphere(2, 0.02) if held == "ball" else trimesh.creation.box((0.04, 0.04, 0.04))
    robot, _ = with_object(rods, surface.apply_translation([0, 0, 0.021]), mass)
    rows = np.arange(1, 15)
    lift = np.zeros((len(rows), 3))
    lift[:, 2] = np.clip(rows - 6, 0, 6) * rise / 6
    surroundings = Environment(
        gravity=(0, 0, -9.81),
        self_friction=0.5,
        obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.3)],
        prescribed=[Prescribed(rods.fixed_vertices, lift)],
    )
    pull = np.tile(1.8 * np.clip(rows / 5, 0, 1)[:, None], (1, 4))
    solver = RodShellStepper(dt=dt, frame_interval=0.05, damping=2.0)
    return Case(robot, Passive(0.05 * len(rows), len(rows)) & CableTensions(pull), surroundings, solver)
