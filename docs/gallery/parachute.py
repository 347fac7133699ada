"""
A parachute opens
=================

A shell of fabric and rods that carry a load, in the drag of the air [Lahoti].
"""

import geosim
from geosim.cli.rod_cases import parachute

case = parachute(rows=3, duration=0.5, dt=0.02)
result = geosim.solve(**case.arguments())
fallen = result.frames[0][:, 2].mean() - result.frames[-1][:, 2].mean()
print(f"fell {fallen:.3f} m, freely it would have fallen 1.226 m")
assert 0.1 < fallen < 1.226
