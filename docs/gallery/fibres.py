"""
Fibres decide what pressure does
================================

A tube in rubber grows thick; wound with threads it grows long.
"""

import numpy as np

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
bare = generate.round_finger(length=30e-3, radius=8e-3).robot("ecoflex-00-30-fang2022", max_edge=7e-3)
wound = generate.fiber_bender(length=30e-3, pitch=5e-3).robot("ecoflex-00-30-fang2022", max_edge=7e-3)
tube = geosim.solve(bare, geosim.Inflation(pressure=6e3), solver=quick)
result = geosim.solve(wound, geosim.Inflation(pressure=[3e3, 6e3]), solver=quick)


def width(solved):
    """Half the width of the tube [mm]."""
    middle = abs(solved.robot.vertices[:, 0] - 15e-3) < 8e-3
    return 500 * np.ptp(solved.frames[-1][middle, 1])


print(f"radius in the middle {width(tube):.2f} mm bare, {width(result):.2f} mm wound, at 6 kPa")
assert width(result) < width(tube) - 0.2
