"""A finger with four chambers on a coarse grid, which bends every way."""

from __future__ import annotations

import numpy as np
from shapes import block

import geosim


def four_chambers(cells: int = 4) -> geosim.VolumetricRobot:
    """Square bar of 40 x 15 x 15 mm with four cavities along it."""
    vertices, tets = block((0.04, 0.015, 0.015), (cells, 5, 5))
    middle = vertices[tets].mean(axis=1)
    column = np.floor(middle[:, 1:] / 0.003).astype(int)
    inside = (np.isin(column, (1, 3))).all(axis=1) & (np.abs(middle[:, 0] - 0.02) < 0.02 - 0.04 / cells)
    regions = np.where(inside, 1 + (column[:, 0] == 3) + 2 * (column[:, 1] == 3), 0)
    return geosim.VolumetricRobot.from_tets(
        vertices, tets, regions, material="ecoflex-00-30", fixed=vertices[:, 0] < 1e-9, tip=vertices[:, 0] > 0.04 - 1e-9
    )
