"""Tapered silicone tentacle with two tendons: four holds fitted, eighteen predicted.

The model is `rod.py`: a solid round rod, its taper and its tendons as published, clamped where the tentacle begins.
Unknowns with priors are Young's modulus (505 kPa, the start value of those who measured; a factor of 1.6), the density
(silicone and what was put in: 1250 kg/m^3, a fifth), where the frame of the base is (4 mm aside, 8 mm along, 3 degrees:
marker sets are not mounted better on soft bodies), and the friction of the tendons in their channels. Poisson's ratio
0.45 enters twist alone. Without friction left-out holds are predicted as well to a millimetre; with softening as a
further unknown, too, so that it is left out.

Each of the four holds is predicted from the other three; what these predictions are off, marker by marker, is the scale
of the bars.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from bayes import Fit, fit, spread
from frozen import Row
from rod import Rod, bend
from scipy.spatial.transform import Rotation

CONE, TIP = 0.305, 0.055  # lengths of the two cones [m]
RADII = (15.41e-3, 6.42e-3, 4.80e-3)  # at their ends [m]
ANGLES = np.radians([30.0, 150.0])  # of the tendons around the axis
DISTANCE = (0.0114, -0.0295)  # of a tendon from the axis: at the base [m], and its change along it
MARKERS = ((0.1291, (0, 0, 0.025)), (0.2195, (0, 0, -0.021)), (0.2800, (0, 0, 0.020)), (0.3600, (0.008, 0, 0)))
HANGING = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # local x onto -z, local z onto x
MODULUS, DENSITY = 505e3, 1250.0  # middles of the priors [Pa, kg/m^3]
PRIORS = np.array(
    [0.5, 0.2, 4e-3, 4e-3, 8e-3, 0.05, 0.05, 0.05, 0.1]
)  # ln E, ln rho, base [m], its turn [rad], friction
FRICTION = 0.1  # middle of its prior: a thin line in a lined channel
# What a rod of one modulus leaves over at the markers [m]: weights of the fit, in the proportion of their distance to the clamp
# to the power of about 1.4, as bending errors grow; their scale in the bars is measured.
LEFT = np.array([3e-3, 5e-3, 8e-3, 12e-3])
# It grows with the bend: a part is there at rest, the rest in proportion to the larger tension over 6 N.
STILL, PULLED = 0.4, 6.0
BOTH = 1.3  # with both tendons pulled, of which no hold is shown
INDEPENDENT = 3  # numbers of a hold whose errors are independent: how far, which way, and how the curve is distributed


def rod(count: int = 16, end: int = 5) -> Rod:
    """Return the tentacle in segments, `count` in the first cone."""
    lengths = np.r_[np.full(count, CONE / count), np.full(end, TIP / end)]
    s = np.cumsum(lengths) - 0.5 * lengths
    radii = np.interp(s, [0.0, CONE, CONE + TIP], RADII)
    away = np.where(s < CONE, DISTANCE[0] + DISTANCE[1] * s, np.nan)
    lines = [np.column_stack([away * np.cos(a), away * np.sin(a)]) for a in ANGLES]
    return Rod(lengths, radii, np.array(lines))


ROD = rod()
Model = Callable[[np.ndarray, np.ndarray], np.ndarray]  # tensions (2,) [N], unknowns: places of the markers (12,) [m]


def markers(tensions: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return where the markers are [m], (12,), at tensions [N] with unknowns in units of their priors."""
    ln_e, ln_rho, *rest = z * PRIORS
    base = Rotation.from_rotvec(rest[3:6]).as_matrix() @ HANGING
    friction = FRICTION + rest[6]
    shape = bend(ROD, MODULUS * np.exp(ln_e), DENSITY * np.exp(ln_rho), tensions, base, friction)
    return np.concatenate([shape.at(ROD, *m) + rest[:3] for m in MARKERS])


def read_holds(data: Path) -> np.ndarray:
    """Return the holds shown, (4, 14): tensions [N], places of four markers [m]."""
    return np.loadtxt(data / "robots" / "tentacle" / "holds_to_fit.csv", delimiter=",", skiprows=1)


def read_pulls(data: Path) -> np.ndarray:
    """Return the tensions of the holds to be predicted [N], (18, 2)."""
    return np.loadtxt(data / "robots" / "tentacle" / "tensions_to_predict.csv", delimiter=",", skiprows=1)


def identify(holds: np.ndarray, model: Model = markers) -> Fit:
    """Return the fit of the unknowns to holds (h, 14): tensions [N], places of four markers [m]."""
    sigma = np.repeat(LEFT, 3)

    def residual(z: np.ndarray) -> np.ndarray:
        return np.concatenate([(model(row[:2], z) - row[2:]) / sigma for row in holds])

    return fit(residual, len(PRIORS))


def folds(holds: np.ndarray) -> np.ndarray:
    """Return errors of every hold predicted from the others [m], shape (h, 12)."""
    return np.array(
        [markers(row[:2], identify(np.delete(holds, i, axis=0)).z) - row[2:] for i, row in enumerate(holds)]
    )


def grown(tensions: np.ndarray) -> np.ndarray:
    """Return how much of what is left over there is at tensions (h, 2) [N], (h,)."""
    return STILL + (1.0 - STILL) * tensions.max(axis=1) / PULLED


def halves(unknown: np.ndarray, tensions: np.ndarray, scale: float, width: float) -> np.ndarray:
    """Return half-widths [m] (12,) at tensions (2,) [N]: standard deviations of the unknowns' part (12,), and the model's."""
    both = BOTH if (tensions > 0).all() else 1.0
    model = scale * np.repeat(LEFT, 3) * float(grown(tensions[None])[0]) * both
    return width * np.hypot(unknown, model)


def rows_of(tensions: np.ndarray, value: np.ndarray, half: np.ndarray) -> list[Row]:
    """Return the rows of a hold: tensions (2,) [N], places of the markers and half-widths (12,) [m]."""
    names = [f"p{i}_{axis}" for i in range(1, 5) for axis in "xyz"]
    return [
        Row("tentacle", float(tensions[0]), float(tensions[1]), name, "m", float(v), float(v - h), float(v + h))
        for name, v, h in zip(names, value, half)
    ]


def told(holds: np.ndarray, off: np.ndarray) -> list[str]:
    """Return lines of the errors of left-out holds (h, 12) [m]."""
    distance = 1e3 * np.linalg.norm(off.reshape(-1, 4, 3), axis=-1)
    lines = ["hold left out: errors of the four markers [mm]"]
    lines += [
        f"  {row[0]:.3f} {row[1]:.3f} N: " + ", ".join(f"{d:.1f}" for d in each) for row, each in zip(holds, distance)
    ]
    return [*lines, "  mean: " + ", ".join(f"{d:.1f}" for d in distance.mean(axis=0))]


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    shown = read_holds(data)
    found, off = identify(shown), folds(shown)
    lines = told(shown, off)
    scale, width = spread(off / (np.repeat(LEFT, 3) * grown(shown[:, :2])[:, None]), INDEPENDENT * len(shown))
    lines += [f"scale of what is left over {scale:.2f}, {width:.2f} standard deviations are 95 %"]
    rows = []
    for pull in read_pulls(data):
        half = halves(found.sigma(partial(markers, pull)), pull, scale, width)
        rows += rows_of(pull, markers(pull, found.z), half)
    return rows, lines


def left_out(
    data: Path, model: Model, unsure: Model, fitted: Model | None = None, asked: bool = True, twice: bool = False
) -> tuple[list[Row], list[str]]:
    """Return predictions of every hold shown from the others and, from all of them, of those asked for; and lines.

    The scale of a hold's bars comes from the errors of the other holds so predicted: a bar knows nothing of the hold that it
    is held against. Those errors are of the unknowns and of the model together, and so is what the scale multiplies.

    Parameters
    ----------
    data
        Reference data.
    model, unsure
        What is predicted (12,) [m] and how far it may be off for its segments (12,) [m], by tensions and unknowns.
    fitted
        The model that is identified and whose slopes are taken; default: `model`.
    asked
        Predict the eighteen holds that nobody has shown, too.
    twice
        As the first predictions were frozen: the scale, which has the part of the unknowns in it, multiplies the model's
        part alone, to which that of the unknowns is added again.
    """
    shown, fitted = read_holds(data), fitted or model
    without = [identify(np.delete(shown, i, axis=0), fitted) for i in range(len(shown))]
    values = [model(row[:2], found.z) for row, found in zip(shown, without)]
    off = np.array(values) - shown[:, 2:]
    sigmas = [found.sigma(partial(fitted, row[:2])) for row, found in zip(shown, without)]
    left = np.repeat(LEFT, 3) * grown(shown[:, :2])[:, None]
    relative = off / (left if twice else np.hypot(sigmas, left))
    rows: list[Row] = []

    def add(pull: np.ndarray, found: Fit, value: np.ndarray, unknown: np.ndarray, known: np.ndarray) -> None:
        scale, width = spread(known, INDEPENDENT * len(known))
        half = halves(unknown, pull, scale, width) if twice else halves(unknown, pull, 1.0, scale * width)
        rows.extend(rows_of(pull, value, np.hypot(half, unsure(pull, found.z))))

    for i, (hold, found, value, sigma) in enumerate(zip(shown, without, values, sigmas)):
        add(hold[:2], found, value, sigma, np.delete(relative, i, axis=0))
    if asked:
        all_ = identify(shown, fitted)
        for pull in read_pulls(data):
            add(pull, all_, model(pull, all_.z), all_.sigma(partial(fitted, pull)), relative)
    return rows, told(shown, off)
