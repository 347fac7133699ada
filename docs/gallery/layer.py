"""
A strip of paper makes a tube bend
==================================

A tube grows straight; a layer that does not stretch, bonded along one side, turns growth into bending.
"""

import numpy as np

import geosim
from geosim import Layer, LinearElastic, Select, generate

quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
design = generate.round_finger(length=30e-3, radius=8e-3, cap=4e-3)
paper = Layer(Select.plane("z", below=-6e-3), 0.1e-3, LinearElastic(2e9, 0.3, 800.0), of="skin")
command = geosim.Inflation(volume_ratio=[1.3, 1.6])
bare = design.robot("ecoflex-00-30-fang2022", max_edge=6e-3)
plain = geosim.solve(bare, command, solver=quick)
robot = geosim.VolumetricRobot.from_surfaces(
    design.body,
    design.chambers,
    material="ecoflex-00-30-fang2022",
    fixed=design.fixed,
    tip=design.tip,
    max_edge=6e-3,
    layers=[paper],
)
result = geosim.solve(robot, command, solver=quick)
print("bend", np.degrees(plain.bend_angle).round(2), "without,", np.degrees(result.bend_angle).round(1), "degrees with")
assert result.bend_angle[-1] > 10 * plain.bend_angle[-1]
