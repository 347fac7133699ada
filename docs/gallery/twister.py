"""
A twister turns its tip
=======================

A square chamber that winds round the axis of a finger: inflated, it unwinds.
"""

import numpy as np

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.twister(length=50e-3, turns=0.5).robot("ecoflex-00-30-fang2022", max_edge=8e-3)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.4, 1.8]), solver=quick)
print("turned by", np.degrees(result.twist_angle).round(1), "degrees")
assert result.converged
assert abs(result.twist_angle[-1]) > abs(result.twist_angle[0]) > 0.01
