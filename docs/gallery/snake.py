"""
A soft snake crawls
===================

Links that bend under pressure, wheels that slip forwards only, a wave along the body [Gasoto2019].
"""

import geosim

robot = geosim.make_snake(links=4)
gait = geosim.UndulatoryGait(amplitude=40e3, frequency=1.0, phase_lag=1.5, offset=0.0, duration=0.6)
result = geosim.solve(robot, gait, throw=False)
print(result)
assert len(result.frames) > 10
