"""A bending finger as a planar beam: the model that conditions, and robots that depart from it.

    kappa(s) = (p A e - m(s)) / (E I),        m(s) the moment of the weight beyond s,        1 + p A / (E S) the stretch.

Robots may taper, have a bubble in a wall, soften with strain: errors of a kind that the model does not have. Robots of a wrong
topology have a blocked canal, a clamp that holds a third of the finger, a layer that peels off, or a chamber on either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.stats import qmc

from geosim.apps.condition.response import FittedResponse, fitted_curve
from geosim.apps.condition.unknowns import as_unknowns

SEGMENTS = 24
LENGTH, WIDTH, HEIGHT = 0.1, 0.02, 0.018  # [m]
MODULUS, DENSITY = 150e3, 1070.0  # [Pa], [kg/m^3]
ITERATIONS = 40
MEASURES = ("bend_angle_deg", "tip_x_mm", "tip_z_mm", "blocked_force")
UNKNOWNS = {
    "modulus": stats.lognorm(0.25),  # batches of one rubber
    "wall_mm": stats.uniform(1.6, 0.8),
    "channel_mm": stats.norm(0.0, 0.3),  # place of the channel above its drawing
    "seating": stats.uniform(0.8, 0.2),  # of the tip against its gauge: a factor on the force
    "offset_mm": stats.norm(0.0, 0.5),  # of the marker
}


@dataclass(frozen=True)
class Truth:
    """How a robot departs from the model; all 0 is the model itself.

    Parameters
    ----------
    taper
        Change of width and height from base to tip, as a share.
    bubble
        Loss of stiffness over a tenth of the length, as a share, and its place.
    softening
        Loss of modulus at a bending strain of 0.3, as a share.
    topology
        "" or "canal", "clamp", "peel", "sides".
    """

    taper: float = 0.0
    bubble: tuple[float, float] = (0.0, 0.5)
    softening: float = 0.0
    topology: str = ""


def beam(unknowns: Mapping[str, np.ndarray], loads: np.ndarray, measure: str, truth: Truth = Truth()) -> np.ndarray:
    """Return a measure (d, n) at pressures loads[:, 0] [kPa] (n,)."""
    p = 1e3 * loads[:, 0][None, :, None]
    s = (np.arange(SEGMENTS) + 0.5) / SEGMENTS
    E = MODULUS * np.asarray(unknowns["modulus"])[:, None, None]
    wall = 1e-3 * np.asarray(unknowns["wall_mm"])[:, None, None]
    place = 1e-3 * np.asarray(unknowns["channel_mm"])[:, None, None]
    wide = 1.0 + truth.taper * (s - 0.5)
    area = (WIDTH * wide - 2 * wall) * (HEIGHT * wide - 2 * wall - 2e-3)  # a floor of 2 mm more
    solid = WIDTH * HEIGHT * wide**2 - area
    arm = 0.5 * HEIGHT * wide + 1e-3 + place  # from the layer that does not stretch to the channel's middle
    second = WIDTH * HEIGHT**3 * wide**4 / 3.0 - area * (arm**2 + (HEIGHT * wide - 2 * wall) ** 2 / 12.0)
    stiff = E * second * (1.0 - truth.bubble[0] * (np.abs(s - truth.bubble[1]) < 0.05))
    moment = p * area * arm
    if truth.topology == "canal":
        moment = moment * (s < 0.5)
    elif truth.topology == "clamp":
        moment = moment * (s > 1.0 / 3.0)
        stiff = stiff * np.where(s > 1.0 / 3.0, 1.0, 1e3)
    elif truth.topology == "peel":
        moment = moment * (0.25 + 0.75 * np.exp(-p / 4e3))
    elif truth.topology == "sides":
        moment = moment * 0.25
    if measure == "blocked_force":
        lever = 1.0 - s
        force = np.sum(moment / stiff * lever, axis=2) / np.sum(LENGTH * lever**2 / stiff, axis=2)
        return np.asarray(unknowns["seating"])[:, None] * force
    ds = LENGTH / SEGMENTS
    weight = DENSITY * 9.81 * (solid + 0.0 * p) * ds
    stretch = 1.0 + p * area / (6.0 * E * solid)
    kappa = moment / stiff
    for _ in range(ITERATIONS):
        turn = np.cumsum(kappa, axis=2) * ds - 0.5 * kappa * ds
        x = np.cumsum(stretch * np.cos(turn), axis=2) * ds
        beyond = np.cumsum(weight[:, :, ::-1], axis=2)[:, :, ::-1]
        sums = np.cumsum((weight * x)[:, :, ::-1], axis=2)[:, :, ::-1]
        own = moment + sums - beyond * x  # weight bends the same way, towards -z
        strain = np.abs(kappa) * HEIGHT
        soft = stiff * (1.0 - truth.softening * np.tanh(strain / 0.3))
        kappa = 0.5 * kappa + 0.5 * own / soft
    turn = np.cumsum(kappa, axis=2) * ds - 0.5 * kappa * ds
    if measure == "bend_angle_deg":
        return np.degrees(np.sum(kappa, axis=2) * ds)
    if measure == "tip_x_mm":
        return 1e3 * np.sum(stretch * np.cos(turn), axis=2) * ds
    return -1e3 * np.sum(stretch * np.sin(turn), axis=2) * ds + np.asarray(unknowns["offset_mm"])[:, None]


def drawn_truth(rng: np.random.Generator) -> Truth:
    """Return an error of a kind that the model does not have: one of three."""
    kind, size = rng.integers(3), rng.uniform(0.3, 1.0)
    if kind == 0:
        return Truth(taper=float(rng.choice([-1, 1]) * 0.2 * size))
    if kind == 1:
        return Truth(bubble=(0.6 * size, float(rng.uniform(0.1, 0.9))))
    return Truth(softening=0.3 * size)


def reduced(loads: np.ndarray, samples: int = 256, seed: int = 0) -> FittedResponse:
    """Return the model as a reduced one: polynomials of modulus, wall and channel; the rest acts on readings.

    Parameters
    ----------
    loads
        Pressures [kPa] (m, 2), the first at rest.
    samples
        That are solved.
    seed
        Of the samples.
    """
    unknowns = as_unknowns(UNKNOWNS)
    s = np.zeros((samples, len(UNKNOWNS)))
    s[:, :3] = 2.0 * qmc.Sobol(3, rng=np.random.default_rng(seed)).random_base2(int(np.log2(samples))) - 1.0
    values = unknowns.at_box(s) | {"seating": np.ones(samples), "offset_mm": np.zeros(samples)}
    curves = {m: fitted_curve(s[:, :3], loads, beam(values, loads, m), m) for m in MEASURES}
    shifts = {"seating": ("blocked_force", "factor"), "offset_mm": ("tip_z_mm", "offset")}
    return FittedResponse(curves, dict.fromkeys(MEASURES, 0.0), shifts, (0, 1, 2))
