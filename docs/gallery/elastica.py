"""
An elastica
===========

A rod under a load at its end that is too large for beam theory, beside the exact solution of Bisshopp and Drucker.
"""

import numpy as np

import geosim

length, radius, modulus = 0.1, 1e-3, 1e7
load = 2.0 * modulus * np.pi * radius**4 / 4 / length**2  # P L^2 / (E I) = 2
x = np.stack([np.linspace(0, length, 41), np.zeros(41), np.zeros(41)], axis=1)
robot = geosim.RodShellRobot(
    x,
    radius=radius,
    rod_material=geosim.LinearElastic(modulus, 0.5, 1000.0),
    fixed_vertices=[0, 1],
    fixed_edges=[0],
    planar=True,
)
pull = geosim.Environment(loads=geosim.Load.force([40], (0, 0, -load)))
result = geosim.solve(robot, geosim.Passive(), pull, solver=geosim.RodShellStepper(static=True))
down = -result.frames[-1][-1, 2] / length
print(f"tip down by {down:.4f} lengths")
assert abs(down - 0.4935) < 0.015
