"""
A walker on two legs
====================

Two pneumatic legs under a back bend backwards. The hind leg leads by a quarter of a cycle, and friction carries the body on.
"""

import geosim.learning
import gymnasium
import numpy as np

import geosim

environment = gymnasium.make("geosim/Walker-v0").unwrapped
environment.reset(options={"friction": 0.6})
cycle = np.array([(1, 1), (1, 0), (0, 0), (0, 1)])  # of 0.2 s, hind and fore leg
rows = np.repeat(18e3 * np.tile(cycle, (4, 1)), 2, axis=1)  # two chambers a leg
steps = geosim.Passive(0.05 * len(rows), steps=len(rows)) & geosim.Inflation(pressure=rows)
result = geosim.solve(environment.robot, steps, environment.surroundings, solver=environment.solver)
way = 1e3 * (result.tip[-1, 0] - result.tip[0, 0])
print(f"{way:.1f} mm in {result.times[-1]:.1f} s")
assert way > 2.0
