"""
Filaments that curl and entangle
================================

`generate.entangler` hangs filaments from a circle. Its commands are a table of natural curvature, and neighbours curl to different sides
[Choi2024].
"""

import geosim
from geosim import generate

design = generate.entangler(filaments=3, length=200e-3, palm_radius=15e-3, turns=1.2, edges=16)
air = geosim.Fluid(density=0.0, viscosity=5.0)
surroundings = geosim.Environment(gravity=(0, 0, -9.81), self_friction=0.5, fluid=air)
solver = geosim.RodShellStepper(dt=5e-3, integrator="implicit-euler", frame_interval=0.1)
result = geosim.solve(design.robot("smooth-sil-950"), design.actuation("smooth-sil-950"), surroundings, solver=solver)
print(f"contacts in a frame: {result.contact_count.max():.0f}")
assert result.converged
assert result.contact_count.max() > 0
assert result.crossings.max() == 0
