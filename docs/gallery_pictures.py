"""What the gallery shows below a script: its result as a picture and a film, or its fit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from geosim.calibrate import Calibration
from geosim.compare import Comparison
from sphinx_gallery.scrapers import figure_rst

from geosim import Result

ORDER = (
    *("pneunet", "bellows", "twister", "twiner", "three_chambers", "membrane", "gripper", "press", "friction"),
    *("vacuum", "gas", "tendon", "layer", "fibres", "dropped", "fast", "walker"),
    *("spider", "hanging_rod", "elastica", "draped_sheet", "parachute", "entangler", "snake"),
    *("target", "sweep", "calibrate", "scan", "mocap", "error_bar", "projective"),
)  # what is inflated, what it touches, what else pulls; rods, shells, snakes; questions


class Order:
    """Key by which the gallery sorts its scripts."""

    def __init__(self, folder: str) -> None:
        """`folder` holds the scripts."""

    def __call__(self, name: str) -> int:
        """Return the place of a script; one that is not in the list is an error, not the last."""
        return ORDER.index(os.path.splitext(name)[0])


def scrape(block: Any, variables: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Write picture and film of what the block made; return how the page shows them."""
    paths, made = [], variables["example_globals"]
    result, found = made.get("result"), made.get("found")
    if "figure" in made:  # what the script draws itself
        paths.append(next(variables["image_path_iterator"]))
        made["figure"].savefig(paths[-1])
    elif isinstance(found, Comparison):
        paths.append(next(variables["image_path_iterator"]))
        found.plot(paths[-1])
    elif isinstance(result, Result):
        paths.append(next(variables["image_path_iterator"]))
        result.plot(paths[-1])
        if result.times[-1] > 0.0:
            film = os.path.splitext(next(variables["image_path_iterator"]))[0] + ".gif"
            result.film(film, fps=8.0)
            paths.append(film)
    if "curve" in made:  # beside the film
        paths.append(next(variables["image_path_iterator"]))
        made["curve"].savefig(paths[-1])
    if isinstance(found, Calibration):
        paths.append(next(variables["image_path_iterator"]))
        found.plot(paths[-1])
    return figure_rst(paths, settings["src_dir"])


def _get_sg_image_scraper() -> Any:
    """Name by which the gallery finds the function above."""
    return scrape
