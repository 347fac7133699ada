"""
A finger that bends where it is told
====================================

Three chambers round the axis of a finger; one of them inflated bends it away from that side.
"""

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.round_finger(chambers=3, length=40e-3).robot("ecoflex-00-30-fang2022", max_edge=10e-3)
one_by_one = geosim.Inflation(volume_ratio=[[1.5, 1.0, 1.0], [1.5, 1.5, 1.0]])
result = geosim.solve(robot, one_by_one, solver=quick)
print("tips", (1e3 * result.tip).round(1), "mm")
assert result.tip[0, 2] < -2 * abs(result.tip[0, 1])  # chamber 1 is on top: the tip goes straight down
assert abs(result.tip[1, 1]) > 2 * abs(result.tip[0, 1])
