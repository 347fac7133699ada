"""
A material from a tensile test
==============================

Constants with their intervals, a warning where a fit is not to be trusted, and the plot of both.
"""

import numpy as np
from geosim.calibrate import MaterialTest, fit, nominal_stress

stretch = np.linspace(1.0, 2.0, 40)[1:]
rng = np.random.default_rng(1)
stress = nominal_stress("mooney-rivlin", [40e3, 10e3], "uniaxial", stretch) * (1 + 0.01 * rng.standard_normal(39))
found = fit([MaterialTest("uniaxial", stretch, stress, "pull")], "mooney-rivlin")
print("\n".join(found.lines()))
assert abs(found.material.shear_modulus / 100e3 - 1) < 0.03
