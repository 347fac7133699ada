"""
A rod swings
============

Dynamics by the generalized-alpha rule: second order, and no energy from nowhere.
"""

import numpy as np

import geosim

x = np.stack([np.linspace(0, 0.4, 21), np.zeros(21), np.zeros(21)], axis=1)
robot = geosim.RodShellRobot(
    x, radius=5e-3, rod_material=geosim.LinearElastic(1e6, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0]
)
solver = geosim.RodShellStepper(dt=0.01, integrator="generalized-alpha", frame_interval=0.05)
result = geosim.solve(robot, geosim.Passive(1.0), geosim.Environment(gravity=(0, 0, -9.81)), solver=solver)
print("tip", (1e3 * result.frames[-1][-1]).round(1), "mm")
assert result.converged
assert result.frames[:, -1, 2].min() < -0.2
