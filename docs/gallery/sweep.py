"""
Which wall bends most?
======================

A study solves every design in a process of its own and keeps a table.
"""

import tempfile

import geosim

study = {
    "design": "pneunet",
    "material": "ecoflex-00-30-fang2022",
    "fixed": {"chambers": 2},
    "vary": {"wall_mm": [1.5, 2.0, 2.5]},
    "actuation": {"pressure_kpa": [3.0]},
    "mesh": {"max_edge_mm": 10.0},
    "solver": {"element": "p1"},
}
folder = tempfile.mkdtemp()
table = geosim.sweep(study, workers=1, out=folder)
print(table[["wall_mm", "status", "bend_angle_deg", "max_stretch"]])
best = table["run"][table["bend_angle_deg"].idxmax()]
result = geosim.load_result(f"{folder}/runs/{best}/result.npz")
assert (table["bend_angle_deg"].diff()[1:] < 0).all()
