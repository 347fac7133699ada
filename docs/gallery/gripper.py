"""
Three fingers close
===================

A palm with three fingers that hang from it, all on one pressure; the tip is that of the first finger.
"""

import numpy as np

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
finger = generate.pneunet(chambers=2, wall=1.5e-3)
robot = generate.gripper(finger, count=3).robot("dragon-skin-10-dubied2022", max_edge=12e-3)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.1, 1.2]), solver=quick)
print("bend of a finger", np.degrees(result.bend_angle).round(1), "degrees")
assert result.converged
assert result.bend_angle[-1] > result.bend_angle[0] > 0
