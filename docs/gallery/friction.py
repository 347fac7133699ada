"""
Friction holds a block
======================

A block of rubber pressed on a plane and pushed sideways: it sticks first, and slides at Coulomb's limit.
"""

import numpy as np
import trimesh

import geosim
from geosim import Environment, Obstacle, Passive, Prescribed, Select

box = trimesh.creation.box(bounds=[[0, 0, 0], [0.02, 0.02, 0.01]])
top = Select.plane("z", above=0.00999)
robot = geosim.VolumetricRobot.from_surfaces(box, material="dragon-skin-30", fixed=None, tip=top, max_edge=6e-3)
path = np.array([[0, 0, -4e-4], [2e-4, 0, -4e-4], [2e-3, 0, -4e-4], [4e-3, 0, -4e-4]])
floor = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.3)
environment = Environment(obstacles=floor, prescribed=Prescribed(top, path))
result = geosim.solve(robot, Passive(steps=4), environment)
forces = result.obstacle_forces[:, 0]
print("sideways over normal force:", (forces[:, 0] / -forces[:, 2]).round(4))
assert abs(forces[-1, 0] / -forces[-1, 2] - 0.3) < 0.005
