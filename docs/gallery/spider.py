"""
A spider falls on its feet
==========================

Rods that are joined, contact with friction on the ground [Choi2024].
"""

import geosim
from geosim.cli.rod_cases import spider

case = spider(duration=0.5)
result = geosim.solve(**case.arguments())
print(f"lowest point {1e3 * result.frames[-1][:, 2].min():.1f} mm")
assert result.converged
