"""Calibration: material constants from material tests (`fit`), parameters from measured robots (`fit_robot`).

calibration = geosim.calibrate.fit(["sample_UT.csv", "sample_ET.csv"], "yeoh", max_stretch=3)
calibration.material, calibration.intervals, calibration.statement
calibration.save("my_silicone.toml"); calibration.plot("my_silicone.png")
"""

from geosim.apps.calibrate.calibration import Calibration, stability_statement
from geosim.apps.calibrate.command import run
from geosim.apps.calibrate.curves import nominal_stress
from geosim.apps.calibrate.cycles import Conditioning, Relaxation, fit_cycles, fit_relaxation
from geosim.apps.calibrate.folds import KFold, k_fold
from geosim.apps.calibrate.identify import RobotCalibration, fit_robot
from geosim.apps.calibrate.measurements import Measurement
from geosim.apps.calibrate.models import ModelComparison, compare_models, fit
from geosim.apps.calibrate.parameters import Parameter, Problem
from geosim.apps.calibrate.reading import read_test
from geosim.apps.calibrate.samples import MaterialTest
from geosim.apps.calibrate.toe import Toe, find_toe, toe_offset

__all__ = [
    "Calibration",
    "Conditioning",
    "KFold",
    "MaterialTest",
    "Measurement",
    "ModelComparison",
    "Parameter",
    "Problem",
    "Relaxation",
    "RobotCalibration",
    "Toe",
    "compare_models",
    "find_toe",
    "fit",
    "fit_cycles",
    "fit_relaxation",
    "fit_robot",
    "k_fold",
    "nominal_stress",
    "read_test",
    "run",
    "stability_statement",
    "toe_offset",
]
