"""Detection of mistakes in marker sets: unit, handedness, exchanged labels, a marker that is elsewhere.

Every explanation is tried: the misfit of a set to its places is the least sum of squares over all rigid motions,

    S = |a|^2 + |b|^2 - 2 (s1 + s2 +- s3)        [Kabsch 1976]

a, b centred, s the singular values of a^T b, the last sign that of its determinant, or the opposite of a mirror image.
An explanation holds where it leaves a twentieth of S, and of a marker left out where chance would not (F-test).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.special import fdtrc

from geosim.arrays import METRES_PER_UNIT, MIN_DIVISOR, Floats
from geosim.errors import InputError

WRONG_UNIT_RATIO = (
    2.5  # factor between the sizes of a set and of its places from which on the unit is wrong: robots stretch to 2
)
EXPLAINED_REMAINDER = 0.05  # part of the sum of squares that an explanation leaves
EQUAL_VARIANCE_RATIO = 4.0  # factor between variances within which the simpler explanation is taken


def misfit(a: Floats, b: Floats, *, mirrored: bool = False) -> float:
    """Return the least sum of squares |T a - b|^2 over rigid motions T, or over those of the mirror image [m^2]."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    product = a.T @ b
    s = np.linalg.svd(product, compute_uv=False)
    s[2] *= np.sign(np.linalg.det(product)) * (-1.0 if mirrored else 1.0)
    return max(float((a**2).sum() + (b**2).sum() - 2.0 * s.sum()), 0.0)


def check_scale(ratio: float, source: str, limit: float = WRONG_UNIT_RATIO) -> None:
    """Refuse measured over expected lengths that only another unit explains.

    Raises
    ------
    InputError
        The ratio is not near 1; units that would bring it there are named.
    """
    if 1.0 / limit <= ratio <= limit:
        return
    names = [
        f"{there} read as {here}"
        for here, one in METRES_PER_UNIT.items()
        for there, other in METRES_PER_UNIT.items()
        if 1.0 / WRONG_UNIT_RATIO < ratio * other / one < WRONG_UNIT_RATIO
    ]
    guess = f" (it looks like {' or '.join(names)})" if names else ""
    raise InputError(
        f"{source}: marker distances are {ratio:.4g} times the distances on the robot: the unit is probably wrong"
        f"{guess}; pass units= one of {', '.join(METRES_PER_UNIT)}, or other places"
    )


def doubtful_markers(points: Floats, places: Floats, names: list[str], source: str) -> list[str]:
    """Return which markers are probably exchanged or elsewhere, one sentence or none.

    Parameters
    ----------
    points, places
        Measured positions and where the model has them [m], shape (m, 3), finite.
    names
        Of the markers.
    source
        Named in errors.

    Raises
    ------
    InputError
        The set is in another unit, or mirrored.
    """
    count = len(points)
    apart = pdist(places)
    if count < 3 or not apart.min() > 0:
        return []
    check_scale(float(np.median(pdist(points) / apart)), source)
    own = misfit(points, places)
    extent = float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean()))
    rms = np.sqrt(own / count)
    sound_misfit_rel = 0.02  # rms misfit in parts of the extent of the places up to which nothing is sought
    if rms <= sound_misfit_rel * extent:
        return []
    left = np.array([misfit(np.delete(points, i, 0), np.delete(places, i, 0)) for i in range(count)])
    found = []
    if _freedom(count):
        found = [(misfit(points, places, mirrored=True) / _freedom(count), ""), _exchanged(points, places, names, left)]
    found = [f for f in found if f[0] * _freedom(count) < EXPLAINED_REMAINDER * own]
    found += _elsewhere(left, names, own)
    if not found:
        return []
    least = min(f[0] for f in found)
    variance, text = next(f for f in found if f[0] <= EQUAL_VARIANCE_RATIO * least)
    fits = f"the others then fit within {1e3 * np.sqrt(3.0 * variance):.3g} mm, instead of {1e3 * rms:.3g} mm rms"
    if not text:
        raise InputError(
            f"{source}: the markers are a mirror image of their places: check the handedness of the axes ({fits})"
        )
    return [f"{text}: {fits}"]


def _freedom(count: int) -> int:
    return max(3 * count - 6, 0)


def _exchanged(points: Floats, places: Floats, names: list[str], left: Floats) -> tuple[float, str]:
    """The pair of labels whose exchange fits best, with the variance that it leaves; `left` (m,) is left without each marker."""
    trials = []
    max_exchanged_markers = 40  # markers, those that fit worst, whose labels are exchanged
    for i, j in combinations(np.argsort(left)[:max_exchanged_markers].tolist(), 2):
        order = np.arange(len(points))
        order[[i, j]] = j, i
        trials.append((misfit(points[order], places) / _freedom(len(points)), i, j))
    variance, i, j = min(trials)
    return variance, f"the labels of {names[min(i, j)]} and {names[max(i, j)]} are probably exchanged"


def _elsewhere(left: Floats, names: list[str], own: float) -> list[tuple[float, str]]:
    """The marker without which the others fit, if that is no chance, with the variance that they leave."""
    freedom = _freedom(len(left) - 1)
    if not freedom:
        return []
    worst = int(np.argmin(left))
    ratio = (own - left[worst]) / 3.0 / max(left[worst] / freedom, MIN_DIVISOR)
    chance_probability = 1e-4  # probability at which a marker that is left out improves the fit by chance
    if left[worst] > EXPLAINED_REMAINDER * own or len(left) * fdtrc(3, freedom, ratio) > chance_probability:
        return []
    return [(left[worst] / freedom, f"{names[worst]} is probably an outlier, or the model is wrong there")]


def loosened(before: Floats, after: Floats, names: list[str]) -> list[str]:
    """Return which marker of a group that moves as one does not keep its distances, one sentence or none; (m, 3) each [m]."""
    if len(before) < 3:
        return []
    changes = np.abs(squareform(pdist(after) - pdist(before)))
    extent = float(pdist(before).max())
    # change of distances in parts of a group's extent that its bending explains
    bending_distance_change_rel = 0.2
    if changes.max() <= bending_distance_change_rel * extent:
        return []
    worst = int(np.argmax(np.median(changes, axis=0)))
    return [
        f"{names[worst]} changes its distance from its neighbours by {1e3 * changes[worst].max():.3g} mm: probably an outlier"
    ]
