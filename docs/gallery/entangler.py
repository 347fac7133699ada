"""
Filaments that curl and entangle
================================

`generate.entangler` hangs filaments from a circle. Its commands are a table of natural curvature, which curls them to helices
[Choi2024, section V-A2]. The measure of their entanglement is the number of crossings of two filaments, seen from a mean
direction: the integral of abs((t1 x t2) . r) / (2 pi r^3) along both.
"""

import itertools

import numpy as np

import geosim
from geosim import generate

design = generate.entangler(length=200e-3, radius=3e-3, palm_radius=15e-3)
medium = geosim.Fluid(density=0.0, viscosity=5.0)
surroundings = geosim.Environment(gravity=(0, 0, -9.81), self_friction=0.5, fluid=medium)
solver = geosim.RodShellStepper(dt=5e-3, integrator="implicit-euler", frame_interval=0.1)
result = geosim.solve(design.robot(), design.actuation(), surroundings, solver=solver)


def crossings(one, two):
    """Return the mean number of crossings of two polylines (n, 3)."""
    steps = np.cross(np.diff(one, axis=0)[:, None], np.diff(two, axis=0))
    ways = 0.5 * ((one[1:] + one[:-1])[:, None] - (two[1:] + two[:-1]))
    return np.abs((steps * ways).sum(axis=2) / np.linalg.norm(ways, axis=2) ** 3).sum() / (2 * np.pi)


filaments = result.frames[-1].reshape(5, -1, 3)
total = sum(crossings(one, two) for one, two in itertools.combinations(filaments, 2))
print(f"{total:.1f} crossings, largest contact force {np.abs(result.contact_forces[-1]).max():.2f} N")
assert result.converged
assert total > 6
assert np.abs(result.contact_forces[-1]).max() > 0.05
assert result.crossings.max() == 0  # no filament has passed through another
