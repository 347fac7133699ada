"""
A prediction with its error bar
===============================

How far off the mesh is, and how far off the material may be.
"""

import geosim
from geosim import generate

robot = generate.round_finger(length=20e-3, radius=8e-3, cap=4e-3).robot("ecoflex-00-30-fang2022", max_edge=12e-3)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=1.5), solver=geosim.EnergyShapeSolver(element="p1"))
bars = geosim.error_bars(result, "chamber_pressures")
print(
    f"{bars.value[0] / 1e3:.3f} kPa, mesh +-{bars.mesh[0] / 1e3:.3f} kPa, material +-{bars.material[0] / 1e3:.3f} kPa"
)
assert 0 < bars.mesh[0] < bars.value[0]
