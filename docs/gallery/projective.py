"""
Shape by projections
====================

The local-global solver of [Fang2022]: large inflation of a robust kind, from one factorisation.
"""

import geosim
from geosim import generate

robot = generate.round_finger(length=30e-3, radius=8e-3, wall=2.5e-3).robot("ecoflex-00-30-fang2022", max_edge=6e-3)
result = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.5, 2.0]), solver=geosim.ProjectiveShapeSolver())
print("V/V0", result.volume_ratios[:, 0].round(3), "inverted", result.inverted_elements)
assert abs(result.volume_ratios[-1, 0] - 2.0) < 0.02
