"""Result against measurement: markers (`to_markers`) and scans (`to_scan`).

comparison = geosim.compare.to_scan(result, "scan.ply", units="mm")
comparison.rms, comparison.percent["max"], comparison.systematic, comparison.disagrees
comparison.save("geosim-comparison")
"""

from geosim.apps.compare.cloud import read_scan
from geosim.apps.compare.command import run
from geosim.apps.compare.comparison import Comparison
from geosim.apps.compare.marker_fit import match_unordered, over_time, to_markers
from geosim.apps.compare.markers import Markers, read_markers
from geosim.apps.compare.registration import kabsch
from geosim.apps.compare.scan import to_scan

__all__ = [
    "Comparison",
    "Markers",
    "kabsch",
    "match_unordered",
    "over_time",
    "read_markers",
    "read_scan",
    "run",
    "to_markers",
    "to_scan",
]
