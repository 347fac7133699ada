"""
A PneuNet finger bends
======================

Chambers side by side push each other apart: the finger bends away from them. Pressure in, shape out.
"""

import numpy as np

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.pneunet(chambers=3).robot("dragon-skin-10-dubied2022", max_edge=8e-3)
result = geosim.solve(robot, geosim.Inflation(pressure=np.linspace(5e3, 20e3, 3)), solver=quick)
print("bend", np.degrees(result.bend_angle).round(1), "degrees")
assert result.converged
assert (np.diff(result.bend_angle) > 0).all()
