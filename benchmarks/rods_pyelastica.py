"""The rod cases of rods_speed.py in PyElastica; run by the Python that has `pyelastica`, prints one JSON line.

Usage: python rods_pyelastica.py CASE [STEPS]
"""

from __future__ import annotations

import json
import sys
import time

import elastica as ea
import numpy as np

# name: (Young's modulus, radius, time step): the largest steps that [Choi2024] found stable, Table II
CASES = {
    "cantilever-soft": (1e5, 0.02, 2.5e-4),
    "cantilever-stiff": (1e7, 0.02, 3e-5),
    "helix-thick": (1e7, 5e-3, 4e-5),
    "helix-thin": (1e9, 1e-3, 1e-6),
}


class Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing):
    """What the cases need of PyElastica."""


def rod_of(name: str, modulus: float, radius: float):
    """Return the rod of a case."""
    shear = modulus / 3.0
    if name.startswith("cantilever"):
        return ea.CosseratRod.straight_rod(
            200,
            np.zeros(3),
            np.array([1.0, 0, 0]),
            np.array([0, 0, 1.0]),
            1.0,
            radius,
            500.0,
            youngs_modulus=modulus,
            shear_modulus=shear,
        )
    rise = 0.05 / (2 * np.pi)
    turn = np.linspace(0, 0.5 / np.hypot(0.02, rise), 100)
    x = np.stack([0.02 * np.cos(turn), 0.02 * np.sin(turn), -rise * turn])
    tangent = np.diff(x, axis=1)
    tangent /= np.linalg.norm(tangent, axis=0)
    normal = np.stack([-np.cos(0.5 * (turn[1:] + turn[:-1])), -np.sin(0.5 * (turn[1:] + turn[:-1])), np.zeros(99)])
    normal -= tangent * (tangent * normal).sum(axis=0)
    normal /= np.linalg.norm(normal, axis=0)
    directors = np.stack([normal, np.cross(tangent, normal, axis=0), tangent])
    rod = ea.CosseratRod.straight_rod(
        99,
        x[:, 0],
        tangent[:, 0],
        normal[:, 0],
        0.5,
        radius,
        1273.52,
        youngs_modulus=modulus,
        shear_modulus=shear,
        position=x,
        directors=directors,
    )
    # straight_rod says that the rod wants to be straight; without this the helix is another rod, that springs open
    rod.rest_kappa[:] = rod.kappa
    rod.rest_sigma[:] = rod.sigma
    return rod


def main() -> None:
    """Run some steps of a case and print seconds per simulated second."""
    name = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    modulus, radius, dt = CASES[name]
    simulator = Simulator()
    rod = rod_of(name, modulus, radius)
    simulator.append(rod)
    simulator.constrain(rod).using(ea.OneEndFixedBC, constrained_position_idx=(0,), constrained_director_idx=(0,))
    if name.startswith("helix"):
        simulator.add_forcing_to(rod).using(ea.GravityForces, acc_gravity=np.array([0.0, 0.0, -9.8]))
    simulator.finalize()
    if name.startswith("cantilever"):
        rod.velocity_collection[2] = 5e-3 * np.linspace(0, 1, 201) ** 2
    stepper = ea.PositionVerlet()
    clock = np.float64(0.0)
    for i in range(steps + 200):
        if i == 200:  # the first steps compile
            begin = time.process_time()
        clock = stepper.step(simulator, clock, dt)
    seconds = time.process_time() - begin
    finite = bool(np.isfinite(rod.position_collection).all())
    print(json.dumps({"case": name, "dt": dt, "steps": steps, "per_second": seconds / (steps * dt), "stable": finite}))


if __name__ == "__main__":
    main()
