"""
Prediction against a scan
=========================

A cloud of points is laid on the predicted surface; each is coloured by its distance from it.
"""

import numpy as np
from geosim.compare import to_scan

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.pneunet(chambers=2).robot("dragon-skin-10-dubied2022", max_edge=9e-3)
result = geosim.solve(robot, geosim.Inflation(pressure=12e3), solver=quick)
rng = np.random.default_rng(0)
points = result.surface().sample(4000, seed=0) + 2e-4 * rng.standard_normal((4000, 3))  # 0.2 mm of noise
found = to_scan(result, points)
print(f"rms {1e3 * found.rms:.3f} mm, largest {1e3 * found.max:.3f} mm")
assert found.rms < 4e-4
