"""
A twiner holds a rod
====================

A slender cylinder curls when it is inflated, and winds round a rod: it presses on all sides of it.
"""

import numpy as np

import geosim
from geosim import generate

robot = generate.twiner().robot("dragon-skin-10-medium", max_edge=7e-3)
rod = geosim.Obstacle.cylinder((0.7e-3, -39.5e-3, -20.4e-3), (13.3e-3, 39.5e-3, -20.4e-3), 16e-3)
preview = geosim.ProjectiveShapeSolver(error_estimate=False)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[6, 8]), geosim.Environment(obstacles=rod), solver=preview)
pressing = np.linalg.norm(result.contact_forces, axis=2).sum(axis=1)
print("curled by", np.degrees(result.bend_angle).round(), "degrees, presses with", pressing.round(2), "N")
assert result.converged
assert result.bend_angle[-1] > 2 * np.pi
assert pressing[1] > pressing[0] > 0
