"""Studies: many designs of one robot, solved apart from each other, measured, compared, optimised."""

from geosim.study.optimizing import optimize
from geosim.study.study import Study, read_study
from geosim.study.sweeping import sweep

__all__ = ["Study", "optimize", "read_study", "sweep"]
