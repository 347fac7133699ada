"""
A finger presses on a ball
==========================

Contact pushes back: the force on the obstacle is a result, shown by arrows.
"""

import geosim
from geosim import generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
robot = generate.pneunet(chambers=2).robot("dragon-skin-10-dubied2022", max_edge=9e-3)
ball = geosim.Obstacle.sphere((28e-3, 10e-3, -13e-3), 12e-3)
environment = geosim.Environment(obstacles=ball)
result = geosim.solve(robot, geosim.Inflation(pressure=[10e3, 20e3]), environment, solver=quick)
print("force on the ball", result.obstacle_forces[:, 0, 2].round(3), "N;", result.contact_count, "contacts")
assert result.obstacle_forces[-1, 0, 2] < -0.01
assert result.max_penetration[-1] < 1e-4
