"""Colours and colour maps of pictures and pages, without matplotlib."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats

BRIGHTEST = 255.0  # of a channel of 8 bits

# What is drawn of a robot and about it.
SKIN, WALL, HELD, TIP, EDGE = "#9ebfdb", "#e68c33", "#b32929", "#298040", "#404d5c"
AS_GIVEN = "#8c33a6"  # a surface that a rescue has started from
CABLE, OBSTACLE, FORCE = "#26282d", "#b8b2a8", "#c8291f"

# 17 colours at equal distances, six hexadecimal digits each. Interpolated, they are within 3 % of the maps of these names.
MAPS = {
    "viridis": "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725",
    "plasma": "0d08873105974c02a16600a77e03a89511a1aa2395bc3587cc4778da5a6ae66c5cf0804ef89540fdac33fdc527f8df25f0f921",
    "inferno": "0000040b0724210c4a3d096557106e71196e8a226aa32c61bc3754d24644e45a31f1731df98e09fcac11f9cb35f2ea69fcffa4",
    "coolwarm": "3b4cc04e68d86282ea779af78db0fea3c2feb9d0f9ccd9eddddcdcecd3c5f5c4acf7b093f4987aeb7d62dd5f4bca3b37b40426",
    "YlOrRd": "ffffccfff6b6ffeda0fee38bfed976fec561feb24cfd9f44fd8c3cfc6c33fc4d2aef3323e2191ccf0c21bb00269d0026800026",
}


def rgb(color: str) -> Floats:
    """Return a colour like "#b3541e" as RGB in 0..1, (3,)."""
    return np.frombuffer(bytes.fromhex(color.removeprefix("#")), dtype=np.uint8) / BRIGHTEST


def colored(shares: Floats, name: str) -> Floats:
    """RGB in 0..1 of numbers (n,) on a colour map, 0 and below its first colour, 1 and beyond its last, (n, 3)."""
    nodes = rgb(MAPS[name]).reshape(-1, 3)
    at = np.linspace(0.0, 1.0, len(nodes))
    return np.stack([np.interp(shares, at, channel) for channel in nodes.T], axis=-1)
