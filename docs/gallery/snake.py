"""
A soft snake crawls
===================

Links that bend under pressure, wheels that roll along the body and slip across it, a wave from link to link [Gasoto2019].
"""

import geosim

robot = geosim.make_snake(links=4)
gait = geosim.UndulatoryGait(amplitude=40e3, frequency=1.0, phase_lag=1.5, duration=2.0)
ground = geosim.Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.5)
environment = geosim.Environment(gravity=(0, 0, -9.81), obstacles=ground)
result = geosim.solve(robot, gait, environment, solver=geosim.MultibodyStepper(frame_interval=0.1))
way = result.frames[-1].mean(axis=0) - result.frames[0].mean(axis=0)
print(f"forwards {1e3 * way[0]:.0f} mm, sideways {1e3 * way[1]:.0f} mm in {result.times[-1]:.0f} s")
assert way[0] > 0.1
assert abs(way[1]) < 0.05
