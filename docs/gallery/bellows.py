"""
Bellows stretch far at little strain
====================================

The folds of a bellows open before the rubber is stretched.
"""

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.bellows(convolutions=3).robot("dragon-skin-30", max_edge=8e-3)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.15, 1.3]), solver=quick)
longer = (result.tip[:, 0] - robot.vertices[robot.tip].mean(axis=0)[0]) * 1e3
print("longer by", longer.round(2), "mm; largest stretch", result.max_stretch.round(3))
assert (longer[1:] > longer[:-1]).all()
