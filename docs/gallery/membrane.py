"""
Chambers under a membrane
=========================

Four chambers below a sheet of rubber that is fastened between them; two of them are blown up.
"""

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.membrane(chambers=4, size=80e-3, thickness=2e-3, pad_height=6e-3).robot(
    "ecoflex-00-30-fang2022", max_edge=12e-3
)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[[1.3, 1.0, 1.0, 1.3], [1.6, 1.0, 1.0, 1.6]]), solver=quick)
print("pressures", (result.chamber_pressures[-1] / 1e3).round(3), "kPa")
assert result.chamber_pressures[-1, 0] > result.chamber_pressures[-1, 1]
