"""A robot conditioned on a light test: draws of what is not known, predictions with bars, the next test.

posterior = geosim.condition(robot, "test.csv", {"modulus": (0.7, 1.4), "wall_mm": (1.6, 2.4)}, at=[20, 30])
posterior.verdict, posterior.predict("bend_angle_deg", [20, 30]), posterior.next_test(candidates, of=("bend_angle_deg", 30))

It uses `bridges` (polynomials), `calibrate` (walls) and `study` (measures).
"""

from geosim.apps.condition.conditioning import condition
from geosim.apps.condition.model import ModelError
from geosim.apps.condition.next_test import NextTest
from geosim.apps.condition.posterior import Posterior, Trend, averaged
from geosim.apps.condition.prediction import Prediction
from geosim.apps.condition.response import FittedResponse, PlainResponse
from geosim.apps.condition.rows import TestRows, read_rows
from geosim.apps.condition.solving import SolvedTest
from geosim.apps.condition.unknowns import read_unknowns

__all__ = [
    "FittedResponse",
    "ModelError",
    "NextTest",
    "PlainResponse",
    "Posterior",
    "Prediction",
    "SolvedTest",
    "TestRows",
    "Trend",
    "averaged",
    "condition",
    "read_rows",
    "read_unknowns",
]
