"""Grippers and arms of rods against what is known, and their films.

    python benchmarks/rods_grip.py [slip] [ball] [cube] [ends] [arm] [--films FOLDER]

`slip`: four rods press a cube that is pulled along them in steps of a hundredth; the load at which it slips over mu times the
sum of the normal forces. `ball`, `cube`: four rods with cables close about it and lift it; `ends`: ends of rods are brought
together about a cube and lifted. `arm`: three tendons; the curvature over that of constant curvature, and the tension that is
left at the last guide over that of the capstan.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import trimesh

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from rod_cases import gripper, tendon_arm

from geosim import (
    CableTensions,
    Environment,
    LinearElastic,
    Load,
    Obstacle,
    Passive,
    Prescribed,
    Result,
    RodShellRobot,
    RodShellStepper,
    solve,
)
from geosim.rods.objects import with_object

CUBE_SIZE_M = 0.04
INWARD = -np.array([[np.cos(a), np.sin(a), 0] for a in 0.5 * np.pi * np.arange(4)])


def around_cube(top: float, bottom: float, nodes: int, mass: float) -> tuple[RodShellRobot, np.ndarray, np.ndarray]:
    """Four upright rods [m] about a cube [kg], the vertices of the cube, and the ends of the rods."""
    line = np.stack([np.zeros(nodes), np.zeros(nodes), np.linspace(top, bottom, nodes)], axis=1)
    chain = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
    rods = RodShellRobot(
        np.concatenate([line - (0.5 * CUBE_SIZE_M + 5.9e-3) * d for d in INWARD]),
        np.concatenate([chain + nodes * k for k in range(4)]),
        radius=5e-3,
        rod_material=LinearElastic(2e6, 0.5, 1100.0),
    )
    robot, cube = with_object(rods, trimesh.creation.box((CUBE_SIZE_M,) * 3), mass)
    return robot, cube, np.ravel([[nodes * k, nodes * (k + 1) - 1] for k in range(4)])


def slip() -> Result:
    """The load at which a pressed cube slips, for three coefficients of friction; the motion with the last."""
    robot, cube, ends = around_cube(0.1, -0.1, 9, 0.05)
    into = np.repeat(INWARD, 2, axis=0)
    solver = RodShellStepper(dt=0.01, frame_interval=0.05, damping=10.0)
    shares = np.append(np.linspace(0.1, 0.9, 3), np.arange(0.95, 1.06, 0.01))
    for mu in (0.2, 0.5, 0.8):
        closing = [Prescribed([e], np.outer(np.linspace(0.1, 1, 10), 4e-3 * d)) for e, d in zip(ends, into)]
        gripped = solve(robot, Passive(0.5, 10), Environment(self_friction=mu, prescribed=closing), solver=solver)
        normal = float((gripped.reactions[-1, ends] * into).sum())
        held = [Prescribed([e], 4e-3 * d) for e, d in zip(ends, into)]
        down = np.outer(shares * mu * normal, [0.0, 0.0, -1.0])
        surroundings = Environment(self_friction=mu, prescribed=held, loads=[Load.force(cube, down)])
        pulled = solve(robot, Passive(0.05 * len(shares), len(shares)), surroundings, solver=solver, initial=gripped)
        speed = -np.diff(pulled.frames[:, cube, 2].mean(axis=1)) / 0.05
        first = np.flatnonzero(speed > solver.slip_velocity)[0]
        print(
            f"slip, mu {mu}: normal forces {normal:.3f} N, slips at {shares[first] * mu * normal:.4f} N, "
            f"{shares[first]:.2f} of mu N, holds at {shares[first - 1]:.2f}",
            flush=True,
        )
    return pulled


def lifted(what: str, result: Result, held: np.ndarray) -> Result:
    """Print how far an object is lifted, what the rods bear of it, and how it slips in the end."""
    height = result.frames[:, held, 2].mean(axis=1)
    borne = float(result.contact_forces[-1, held, 2].sum()) / 9.81
    print(
        f"{what}: lifted by {1e3 * (height[-1] - height[0]):.1f} mm, {1e3 * borne:.2f} g on the rods, sinks by "
        f"{1e3 * (height[-2] - height[-1]):.3f} mm in the last 50 ms, {result.status.name}",
        flush=True,
    )
    return result


def by_cables(held: str) -> Result:
    """Four rods with cables lift a ball or a cube of 12 g by 30 mm."""
    case = gripper(held)
    n = len(case.robot.vertices)
    return lifted(held, solve(**case.arguments()), np.arange(np.unique(case.robot.edges).size, n))


def ends() -> Result:
    """Four rods whose ends come together lift a cube of 5 g by 20 mm."""
    robot, held, tips = around_cube(0.16, -0.014, 8, 0.005)
    row = np.arange(1, 13)
    closed, up = np.clip(row / 4, 0, 1), 4e-3 * np.clip(row - 5, 0, 5)
    moves = [np.outer(1.5e-3 * closed, d) + np.outer(up, [0, 0, 1.0]) for d in np.repeat(INWARD, 2, axis=0)]
    surroundings = Environment(
        gravity=(0, 0, -9.81),
        self_friction=0.5,
        obstacles=[Obstacle.plane((0, 0, -0.0207), (0, 0, 1), friction=0.3)],
        prescribed=[Prescribed([e], move) for e, move in zip(tips, moves)],
    )
    solver = RodShellStepper(dt=5e-3, frame_interval=0.05, damping=2.0)
    return lifted("cube between ends", solve(robot, Passive(0.6, 12), surroundings, solver=solver), held)


def arm() -> Result:
    """Curvature and tensions of an arm of three tendons; its motion as they are pulled in turn."""
    smooth, rough = tendon_arm(friction=0.0), tendon_arm(friction=0.4)
    around, bending = 2 * np.pi * np.arange(3) / 3, 1e6 * np.pi * 5e-3**4 / 4

    def turn(result: Result, first: int = 0, last: int = -1) -> float:
        """The angle between two edges [rad]."""
        e = np.diff(result.frames[-1], axis=0)
        return float(np.arccos(e[first] @ e[last] / np.linalg.norm(e[first]) / np.linalg.norm(e[last])))

    for tensions in (np.array([0.3, 0.1, 0.05]), np.array([0.1, 0.3, 0.2])):
        pull = np.hypot(tensions @ np.cos(around), tensions @ np.sin(around))
        bent = turn(solve(smooth.robot, CableTensions([tensions]), solver=smooth.solver))
        ratio = bent / 0.195 / (8e-3 * pull / bending)
        print(f"arm, tensions {tensions} N: bends by {bent:.3f} rad, {ratio:.4f} of sum T d / EI", flush=True)
    for tension in (0.15, 0.3):
        result = solve(rough.robot, CableTensions([[tension, 0, 0]]), solver=rough.solver)
        near, far = result.cable_end_tensions[-1, 0]
        angle = turn(result, 1, -2)  # between the first and the last piece of the cable
        ratio = far / near / np.exp(-0.4 * angle)
        print(f"arm, friction 0.4, {tension} N: {far / near:.4f} is left, {ratio:.4f} of exp(-mu angle)", flush=True)
    return solve(**tendon_arm().arguments())


SECTIONS = {
    "slip": slip,
    "ball": lambda: by_cables("ball"),
    "cube": lambda: by_cables("cube"),
    "ends": ends,
    "arm": arm,
}


def main() -> None:
    """Print what is asked for and write its films."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=list(SECTIONS))
    parser.add_argument("--films", type=Path, help="folder for NAME.gif and NAME.glb of every section")
    given = parser.parse_args()
    for name in given.sections or SECTIONS:
        result = SECTIONS[name]()
        if given.films is not None:
            given.films.mkdir(parents=True, exist_ok=True)
            print(f"{result.film(given.films / f'{name}.gif')}, {result.save(given.films / f'{name}.glb')}", flush=True)


if __name__ == "__main__":
    main()
