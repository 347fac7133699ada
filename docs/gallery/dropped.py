"""
A dropped block
===============

A soft block falls on a table and slides along it until friction has taken its energy.
"""

import numpy as np
import trimesh

import geosim

box = trimesh.creation.box((30e-3, 20e-3, 10e-3))
robot = geosim.VolumetricRobot.from_surfaces(
    box, material=geosim.NeoHookean(mu=2e5, bulk_modulus=2e6), fixed=None, max_edge=20e-3, units="m"
)
table = geosim.Obstacle.plane((0, 0, -8e-3), (0, 0, 1), friction=0.3)
around = geosim.Environment(gravity=(0, 0, -9.81), obstacles=[table], self_contact=False)
stepper = geosim.EnergyShapeStepper(dt=2e-3, integrator="implicit-euler", element="p1", velocity=(0.3, 0, 0))
result = geosim.solve(robot, geosim.Passive(0.12), around, solver=stepper)
speed = np.linalg.norm(result.extra["velocities"].mean(axis=1), axis=1)
print("speed [m/s]", speed[::10].round(3))
print("energy that friction and damping took [J]", result.extra["dissipated"][-1])
assert speed[-1] < 0.1 * speed[0]
