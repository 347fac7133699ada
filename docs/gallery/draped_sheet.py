"""
A sheet drapes over a ball
==========================

Triangles that bend at their edges, with contact and friction.
"""

import geosim
from geosim.cli.rod_cases import draped_sheet

case = draped_sheet(cells=8, duration=0.3, dt=0.01)
result = geosim.solve(**case.arguments())
print(f"lowest point {1e3 * result.frames[-1][:, 2].min():.1f} mm")
assert result.converged
