"""
Air that is shut in
===================

A syringe pushes air into a closed finger: pressure and volume find each other by the gas law.
"""

import numpy as np

import geosim
from geosim import generate

robot = generate.round_finger(length=30e-3, radius=8e-3, cap=4e-3).robot("ecoflex-00-30-fang2022", max_edge=10e-3)
rest = float(robot.chamber_volumes[0])
pushed = rest * np.array([0.3, 0.6])
command = geosim.Inflation(gas=True, extra_volume=2 * rest) & geosim.Syringe(pushed)
result = geosim.solve(robot, command)
P, v = result.chamber_pressures[:, 0], result.chamber_volumes[:, 0]
print("gauge pressures", (P / 1e3).round(3), "kPa at V/V0", (v / rest).round(3))
assert abs((P + 101325) * (v + 2 * rest - pushed) / (101325 * 3 * rest) - 1).max() < 1e-6
