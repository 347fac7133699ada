"""
A session of motion capture
===========================

Six markers over ten pressures, with gaps, in the frame of the cameras: read, and compared with the prediction frame by frame.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from geosim.compare import over_time, read_markers

import geosim
from geosim import generate

robot = generate.pneunet(chambers=2).robot("dragon-skin-10", max_edge=9e-3)
names = ["base1", "base2", "base3", "tip1", "tip2", "tip3"]
pressures = np.linspace(1e3, 10e3, 10)
result = geosim.solve(robot, geosim.Inflation(pressure=pressures), solver=geosim.EnergyShapeSolver(element="p1"))
corners = np.array([[0, 1, 1], [0, -1, 1], [0, 0, -1]])  # three of each end, far apart
places = np.concatenate([ids[(robot.vertices[ids] @ corners.T).argmax(axis=0)] for ids in (robot.fixed, robot.tip)])
rng, turn = np.random.default_rng(0), np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])  # of the cameras, whose y points up
seen = 1e3 * (result.frames[:, places] @ turn.T + 0.4) + 0.05 * rng.standard_normal((10, 6, 3))  # mm, 0.05 mm of noise
rows = np.char.mod("%.3f", seen)
rows[[3, 4, 7], [3, 3, 0]] = ""  # not seen: tip1 in two frames, base1 in one
table = [[f"{name}_{axis}_mm" for name in names for axis in "xyz"], *rows.reshape(10, 18)]
Path("session.csv").write_text("\n".join(map(",".join, table)))
markers = read_markers("session.csv")
compared = over_time(result, markers, frames=range(10), marker_frames=range(10), vertices=places)
gaps = np.isnan(markers.positions[..., 0]).sum(axis=1)
figure, axes = plt.subplots()
for key in ("rms", "max"):
    axes.plot(pressures / 1e3, [1e3 * row[key] for row in compared], "o-", label=key)
axes.bar(pressures / 1e3, 0.1 * gaps, 0.3, color="lightgrey", label="0.1 x markers not seen")
axes.set(xlabel="pressure [kPa]", ylabel="distance from the prediction [mm]")
axes.legend()
print("rms", [round(1e3 * row["rms"], 3) for row in compared], "mm; markers not seen", gaps)
assert gaps.sum() == 3
assert max(row["rms"] for row in compared) < 8e-4
