"""
A tendon closes a finger
========================

A cable through a finger with notches: pulled at its end, it bends the joints between.
"""

import numpy as np

import geosim
from geosim import generate

robot = generate.tendon_finger(joints=2, length=60e-3).robot("dragon-skin-30", max_edge=20e-3)
result = geosim.solve(robot, geosim.CableTensions(np.linspace(0.5, 1.5, 2)[:, None]))
print("cable", (1e3 * result.cable_lengths[:, 0]).round(2), "mm; bend", np.degrees(result.bend_angle).round(1), "deg")
assert (np.diff(result.cable_lengths[:, 0]) < 0).all()
