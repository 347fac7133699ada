"""The experiments of cosseratbench (`pip install cosseratbench`) on geosim, in one table.

python benchmarks/rods_cosseratbench.py [NAME ...] [--elements N]

Prints for every experiment its metrics (errors against references of its own), the largest strain and overlap, and CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
from cosseratbench import registry
from cosseratbench.experiment import run
from cosseratbench.scenario import Cylinder, End, EndCondition, Plane, Scenario
from cosseratbench.solver import Capability, Diverged
from cosseratbench.trajectory import Trajectory

from geosim import Environment, LinearElastic, Load, NaturalShape, Obstacle, Prescribed, RodShellRobot, RodShellStepper
from geosim import solve as solve_case
from geosim.rods.state import RodState


class GeosimSolver:
    """Adapter of `RodShellStepper`: rods at ease when straight, implicit steps, friction as the scenario says."""

    name = "geosim"
    capabilities = frozenset(Capability) - {Capability.SHEAR}

    def run(self, scenario: Scenario, *, n_elements: int, n_frames: int) -> Trajectory:
        """Simulate a scenario with so many elements a rod."""
        count, nodes, rods = n_elements, n_elements + 1, scenario.rods
        places = [rod.nodes(count) for rod in rods]
        x = np.concatenate(places)
        chain = np.stack([np.arange(count), np.arange(1, nodes)], axis=1)
        edges = np.concatenate([chain + k * nodes for k in range(len(rods))])
        times = np.linspace(0.0, scenario.duration, n_frames)[1:]
        held, held_edges, prescribed, turned = [], [], [], []
        for k, rod in enumerate(rods):
            for end in End:
                first = end is End.START
                tip, next_, edge = (
                    (k * nodes, k * nodes + 1, k * count)
                    if first
                    else (k * nodes + count, k * nodes + count - 1, k * count + count - 1)
                )
                condition, motion = rod.condition(end), rod.motion(end)
                if condition is EndCondition.PINNED:
                    held.append(tip)
                elif condition is EndCondition.CLAMPED and motion is None:
                    held += [tip, next_]
                    held_edges.append(edge)
                elif condition is EndCondition.CLAMPED:
                    poses = [motion.pose(t) for t in times]
                    arm, start = x[next_] - x[tip], x[tip]
                    there = np.array([[start + d, start + d + turn @ arm] for d, turn in poses]) - x[[tip, next_]]
                    if motion.slides_along is not None:
                        there[..., np.abs(motion.axis) > 0.5] = np.nan
                    prescribed.append(Prescribed([tip, next_], there))
                    tangent = (arm if first else -arm) / np.linalg.norm(arm)
                    turns = np.array(
                        [np.interp(times, motion.times, np.array(motion.rotation)[:, j]) for j in range(3)]
                    )
                    turned.append(([edge], (tangent @ turns)[:, None]))
        loads = [
            Load.force([k * nodes + (0 if load.at is End.START else count)], load.force)
            for k, rod in enumerate(rods)
            for load in rod.loads
        ]
        materials = [rod.material for rod in rods for _ in range(count)]
        robot = RodShellRobot(
            x,
            edges,
            radius=np.repeat([rod.radius for rod in rods], count),
            rod_material=[
                LinearElastic(m.youngs_modulus, min(m.youngs_modulus / (2.0 * m.shear_modulus) - 1.0, 0.5), m.density)
                for m in materials
            ],
            fixed_vertices=held,
            fixed_edges=held_edges,
            allow_any_size=True,
        )
        rest = np.repeat([rod.length / count for rod in rods], count) / robot.rest_lengths
        shape = NaturalShape(
            times,
            curvature=np.zeros((len(times), len(robot.bends), 2)),
            stretch=np.broadcast_to(rest, (len(times), len(rest))),
        )
        rubs = max(rod.friction for rod in rods)
        environment = Environment(
            gravity=scenario.gravity,
            loads=loads,
            obstacles=[_obstacle(o, rubs) for o in scenario.obstacles],
            prescribed=prescribed,
            self_contact=scenario.self_contact or len(rods) > 1,
            self_friction=rubs,
        )
        interval = float(times[0])
        options = (
            {"dt": min(0.02, interval), "damping": 2.0 * scenario.slowest_frequency()}
            if scenario.quasi_static
            else {"dt": min(5e-3, interval), "integrator": "generalized-alpha", "spectral_radius": 1.0}
        )
        frames: list[RodState] = []
        solver = RodShellStepper(
            frame_interval=interval, edge_rotations=turned, on_frame=frames.append, overlap="resolve", **options
        )
        result = solve_case(robot, shape, environment, solver=solver, throw=False)
        if not result.converged or len(frames) < len(times):
            raise Diverged(result.message, time=float(result.times[-1]) if len(result.times) else 0.0)
        return _trajectory(scenario, robot, frames, places, count)


def _obstacle(o: Cylinder | Plane, friction: float) -> Obstacle:
    """An obstacle of a scenario, with the larger of both coefficients."""
    mu = max(o.friction, friction)
    if isinstance(o, Plane):
        return Obstacle.plane(o.point, o.normal, friction=mu)
    half = 0.5 * o.length * o.unit_axis
    return Obstacle.cylinder(np.asarray(o.center) - half, np.asarray(o.center) + half, o.radius, friction=mu)


def _trajectory(
    scenario: Scenario, robot: RodShellRobot, frames: list[RodState], places: list[np.ndarray], count: int
) -> Trajectory:
    """Positions and directors of all frames, from the start, whose directors fix the angles to those of the sections."""
    first = np.concatenate([rod.directors(count) for rod in scenario.rods])
    m1 = np.array(robot.directors)
    t = np.diff(np.stack([robot.vertices[robot.edges[:, 0]], robot.vertices[robot.edges[:, 1]]]), axis=0)[0]
    m2 = np.cross(t / np.linalg.norm(t, axis=1)[:, None], m1)
    own = np.stack([(first * m1).sum(axis=1), (first * m2).sum(axis=1)])
    positions, directors = [np.concatenate(places)], [first]
    for state in frames:
        a1, theta = state.directors, state.q[state.system.turns :][: len(m1)]
        a2 = np.cross(state.tangents, a1)
        c, s = np.cos(theta)[:, None], np.sin(theta)[:, None]
        b1, b2 = c * a1 + s * a2, c * a2 - s * a1
        positions.append(state.positions)
        directors.append(own[0][:, None] * b1 + own[1][:, None] * b2)
    at = np.cumsum([0, *(len(p) for p in places)])
    return Trajectory(
        np.linspace(0.0, scenario.duration, len(positions)),
        tuple(np.array(positions)[:, a:b] for a, b in pairwise(at)),
        tuple(np.array(directors)[:, k * count : (k + 1) * count] for k in range(len(places))),
    )


def main() -> None:
    """Print one line an experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=registry.names(registry.EXPERIMENTS))
    parser.add_argument("--elements", type=int)
    given = parser.parse_args()
    for name in given.names:
        begin = time.process_time()
        result = run(registry.load_experiment(name), GeosimSolver(), n_elements=given.elements)
        numbers = {**result.metrics, **{k: v for k, v in result.observations.items() if np.isfinite(v)}}
        said = ", ".join(f"{key} {value:.2e}" for key, value in numbers.items())
        why = result.failure or "; ".join(result.missing)
        print(f"{name:10s} {result.outcome:9s} {said or why}, {time.process_time() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
