"""
The volume that bends a finger by ten degrees
=============================================

`solve_for` turns the question round: which command reaches a goal?
"""

import numpy as np

import geosim
from geosim import Goal, generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.pneunet(chambers=2).robot("dragon-skin-10-dubied2022", max_edge=9e-3)
found = geosim.solve_for(robot, Goal.bend_angle(np.radians(10.0)), solver=quick)
result = found.result
print(f"V/V0 {found.actuation.volume_ratio.item():.4f} in {found.solves} solves")
assert found.reached
assert abs(np.degrees(result.bend_angle[-1]) - 10.0) < 0.01
