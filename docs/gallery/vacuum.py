"""
Suction
=======

Vacuum is a negative pressure, a volume ratio below one works as well: the walls buckle inwards.
"""

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.round_finger(length=30e-3, radius=8e-3, wall=2e-3).robot("ecoflex-00-30-fang2022", preview=True)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[0.9, 0.8]), solver=quick)
print("pressures", (result.chamber_pressures[:, 0] / 1e3).round(3), "kPa")
assert (result.chamber_pressures < 0).all()
