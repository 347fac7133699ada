"""Real2sim of the two-limb manipulator driven by shape-memory wires, section V-B of [Choi2024].

Usage: GEOSIM_REFERENCE_DATA=... python rods_real2sim.py

Prints the mean tip error in percent of the length (published: 1.5 %) and the equilibria solved per frame, beside those
of the finite-difference gradient descent of Algorithm 1 on the same frames.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar

from geosim import Environment, LinearElastic
from geosim.arrays import Floats
from geosim.rods.files import read_tags
from geosim.rods.real2sim import equilibrium, pixels_to_metres, recover_curvatures
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.section import Section
from geosim.rods.stepper import RodShellStepper

LENGTH = 0.193  # m; 2.9 mm is 1.5 % of it
ENVIRONMENT = Environment(gravity=(0, 0, -9.8), self_contact=False)


def manipulator(base: float, joint: float, nodes: int = 21) -> RodShellRobot:
    """Return the two limbs, 49 x 9 mm of silicone, at an angle `base` [rad], joined at `joint` [m]."""
    silicone = LinearElastic(1.793e6, 0.5, 1240.0)
    along = np.array([np.cos(base), 0.0, np.sin(base)])
    limbs = [
        Limb((0, 0, 0), joint * along, nodes, 5e-3, silicone),
        Limb(joint * along, LENGTH * along, nodes, 5e-3, silicone),
    ]
    return RodShellRobot.from_limbs(
        limbs, section=Section.rectangle(0.049, 0.009), fixed_vertices=[0, 1], fixed_edges=[0], planar="xz"
    )


def places(tags: Floats) -> Floats:
    """Return the arc lengths of the tags [m], from the median distances between neighbours."""
    step = np.nanmedian(np.linalg.norm(np.diff(tags, axis=1), axis=2), axis=0)
    s = np.concatenate([[0], np.cumsum(step)])
    return s * (LENGTH / s[-1]) * (1 - 1e-12)


def groups_of(robot: RodShellRobot) -> list:
    """Return the stencils of each limb; the joint belongs to the first."""
    joint = np.flatnonzero(robot.bends.vertices[:, 1] == robot.limbs[0][-1])
    return [np.concatenate([robot.limb_bends(0), joint]), robot.limb_bends(1)]


def base_angle(tags: Floats, at: Floats) -> float:
    """Return the angle [rad] of the clamp that fits some frames best."""
    some = tags[np.flatnonzero(np.isfinite(tags).all(axis=(1, 2)))[::40]]

    def misfit(angle: float) -> float:
        robot = manipulator(angle, at[4])
        return float(
            (recover_curvatures(robot, some, groups_of(robot), at=at, environment=ENVIRONMENT).rms_error ** 2).sum()
        )

    return float(minimize_scalar(misfit, bounds=(-0.5, 0.3), method="bounded", options={"xatol": 1e-3}).x)


def algorithm1(robot: RodShellRobot, frame: Floats, at: Floats, value: Floats) -> tuple[Floats, int]:
    """Return curvatures and solves of gradient descent with forward differences on the curvature of each limb."""
    sets = groups_of(robot)
    solver = RodShellStepper(static=True, tolerance=1e-8)
    state = solver.start(robot, ENVIRONMENT)

    def turning(points: Floats) -> Floats:
        angle = np.unwrap(np.arctan2(np.diff(points[:, 2]), np.diff(points[:, 0])))
        return np.array([(angle[3] - angle[0]) / (at[3] - at[0]), (angle[7] - angle[4]) / (at[7] - at[4])])

    target = turning(frame)
    solves = 0

    def loss(c: Floats) -> float:
        nonlocal solves
        solves += 1
        x = equilibrium(solver, state, c, sets).state.positions
        s = np.concatenate([[0], np.cumsum(robot.rest_lengths)])
        return float(np.abs(turning(np.stack([np.interp(at, s, x[:, j]) for j in range(3)], axis=1)) - target).sum())

    step, before = 0.1, np.inf
    for _ in range(200):
        now = loss(value)
        if now < 0.05:
            break
        if now > before:
            step *= 0.5
        before = now
        gradient = np.array([(loss(value + 1e-3 * e) - now) / 1e-3 for e in np.eye(2)])
        value = value - step * gradient
    return value, solves


def main() -> None:
    """Print errors and solves."""
    data = Path(os.environ["GEOSIM_REFERENCE_DATA"]) / "rods/soft_limb_data.csv"
    _, pixels = read_tags(data)
    tags = pixels_to_metres(pixels, LENGTH)
    at = places(tags)
    angle = base_angle(tags, at)
    robot = manipulator(angle, at[4])
    begin = time.process_time()
    found = recover_curvatures(robot, tags, groups_of(robot), at=at, environment=ENVIRONMENT)
    seconds = time.process_time() - begin
    seen = np.isfinite(found.tip_error)
    print(f"frames {seen.sum()} of {len(tags)}, clamp at {np.degrees(angle):.1f} degrees")
    tip = found.tip_error[seen].mean()
    print(
        f"mean tip error {1e3 * tip:.2f} mm = {100 * tip / LENGTH:.2f} % "
        f"of the length (published: 1.5 %), rms over tags {1e3 * found.rms_error[seen].mean():.2f} mm"
    )
    print(f"equilibria per frame {found.solves[seen].mean():.1f}, {1e3 * seconds / seen.sum():.1f} ms per frame")
    some = np.flatnonzero(seen)[1::35]
    counts = []
    for i in some:
        _, solves = algorithm1(robot, tags[i], at, found.curvature[i - 1] if seen[i - 1] else np.zeros(2))
        counts.append(solves)
    print(
        f"Algorithm 1 with finite differences on {len(some)} of these frames: "
        f"{np.mean(counts):.0f} equilibria per frame"
    )


if __name__ == "__main__":
    main()
