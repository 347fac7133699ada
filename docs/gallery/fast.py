"""
A fast PneuNet
==============

A source of 12 kPa fills a finger through a tube. The finger has 10 kPa after 50 ms and swings on; its rubber is viscous.
"""

import matplotlib.pyplot as plt
import numpy as np

import geosim
from geosim import generate

rubber = geosim.NeoHookean(
    mu=1.2e5, bulk_modulus=2e6, relaxation_shares=(0.2,), relaxation_times=(0.05,), viscosity=100.0
)
robot = generate.pneunet(chambers=3).robot(rubber, max_edge=10e-3)
source = geosim.Inflation(pressure=np.full(24, 12e3))
line = geosim.SupplyLine(conductance=8e-9, dead_volume=1e-6)
stepper = geosim.EnergyShapeStepper(dt=2.5e-3, integrator="implicit-euler", element="p1")
around = geosim.Environment(self_contact=False)
result = geosim.solve(robot, geosim.Passive(0.12, steps=24) & source & line, around, solver=stepper)
curve, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(1e3 * result.times, 1e-3 * result.chamber_pressures[:, 0], label="chamber")
axes.axhline(12, color="gray", linestyle="--", label="source")
axes.set(xlabel="time [ms]", ylabel="pressure [kPa]")
axes.legend()
print("pressure [kPa]", 1e-3 * result.chamber_pressures[::8, 0].round())
print("time to 10 kPa [s]", geosim.time_to_pressure(result, 10e3)[0])
assert 0.03 < geosim.time_to_pressure(result, 10e3)[0] < 0.07
