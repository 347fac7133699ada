"""Responses: measures as functions of the unknowns and the loads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from geosim.apps.bridges.chaos import ROWS_PER_TERM, PolynomialChaos, total_degree
from geosim.apps.condition.unknowns import Unknowns
from geosim.arrays import Floats, Ints
from geosim.errors import InputError

HIGHEST_DEGREE = 6  # beyond it terms alternate more than solved samples can hold
SAME_LOAD_REL = 1e-6  # of the largest load: closer loads are one


class Response(ABC):
    """What is predicted, without the error of the model."""

    @abstractmethod
    def __call__(self, unknowns: Unknowns, z: Floats, loads: Floats, measure: str) -> Floats:
        """Return a measure (d, n) at draws z (d, p) in units of the priors and loads (n, 2)."""

    @abstractmethod
    def mesh(self, measure: str) -> float:
        """Return the bound of the error of the mesh, as a share of the change from rest; nan where it is not known."""

    def error(self, measure: str, loads: Floats) -> Floats:
        """Return the standard deviation (n,) of what the fit of the response leaves, as a share of the change from rest."""
        return np.zeros(len(loads))

    def reach(self, measure: str) -> float:
        """Return the largest load at which the measure is known, inf where it has no end."""
        return np.inf


@dataclass(frozen=True)
class PlainResponse(Response):
    """A response that a function computes: f(unknowns {name: (d,)}, loads (n, 2), measure) -> (d, n)."""

    function: Callable[[Mapping[str, Floats], Floats, str], Any]
    mesh_share: float = 0.0

    def __call__(self, unknowns: Unknowns, z: Floats, loads: Floats, measure: str) -> Floats:
        """Return the measure."""
        found = np.asarray(self.function(unknowns.values(z), loads, measure), dtype=float)
        if found.shape != (len(z), len(loads)):
            raise InputError(
                f"response: {measure} has the shape {found.shape} for {len(z)} draws and {len(loads)} loads; return "
                f"{(len(z), len(loads))}"
            )
        return found

    def mesh(self, measure: str) -> float:
        """Return the share that was given."""
        return self.mesh_share


@dataclass(frozen=True)
class Curve:
    """Polynomials of one measure at solved loads.

    Parameters
    ----------
    loads
        At which it was solved, (m, 2), the first of them rest; along each axis increasing.
    chaos
        Of the values, or of the logarithms of the changes from rest, (outputs m).
    logarithmic
        Whether outputs are ln |value - rest|.
    sign
        Of the changes where outputs are logarithms.
    left
        What left-out samples were off, as a share of the change from rest, (m,).
    """

    loads: Floats
    chaos: PolynomialChaos
    logarithmic: bool
    sign: float
    left: Floats

    def values(self, s: Floats) -> Floats:
        """Return the measure (d, m) at places s (d, p) of the box."""
        found = self.chaos(s)
        if self.logarithmic:
            found[:, 1:] = found[:, :1] + self.sign * np.exp(found[:, 1:])
        return found


@dataclass(frozen=True)
class FittedResponse(Response):
    """Polynomials through solved samples, of every measure at every solved load; between loads monotone cubics.

    Parameters
    ----------
    curves
        Measure -> curve.
    meshes
        Measure -> bound of the error of the mesh, as a share of the change from rest.
    shifts
        Unknowns that act on values as they are read: name -> (measure, "offset" or "factor").
    fitted
        Which of the unknowns the polynomials are of, (q,).
    """

    curves: Mapping[str, Curve]
    meshes: Mapping[str, float] = field(default_factory=dict)
    shifts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    fitted: tuple[int, ...] = ()

    def _curve(self, measure: str) -> Curve:
        if measure not in self.curves:
            raise InputError(
                f"measure {measure!r} was not solved; there are {', '.join(self.curves)}; name it in of= of condition"
            )
        return self.curves[measure]

    def __call__(self, unknowns: Unknowns, z: Floats, loads: Floats, measure: str) -> Floats:
        """Return the measure."""
        curve = self._curve(measure)
        solved = curve.values(unknowns.box(z)[:, list(self.fitted)])
        found, rest = interpolated(curve.loads, solved, loads, measure), solved[:, :1]
        for name, (of, kind) in self.shifts.items():
            if of == measure:
                value = unknowns.only(name, z)[:, None]
                found = found + value if kind == "offset" else rest + value * (found - rest)
        return np.asarray(found)

    def error(self, measure: str, loads: Floats) -> Floats:
        """Return what left-out samples were off."""
        curve = self._curve(measure)
        return np.asarray(np.maximum(interpolated(curve.loads, curve.left[None], loads, measure)[0], 0.0))

    def mesh(self, measure: str) -> float:
        """Return the bound of the mesh, nan where it is not known."""
        return float(self.meshes.get(measure, np.nan))

    def reach(self, measure: str) -> float:
        """Return the largest solved load."""
        return float(np.linalg.norm(self._curve(measure).loads, axis=1).max())


def interpolated(known: Floats, values: Floats, loads: Floats, measure: str) -> Floats:
    """Return values (d, n) at loads (n, 2) from those (d, m) at known loads (m, 2).

    Raises
    ------
    InputError
        A load lies beyond the known ones.
    """
    size = float(np.abs(known).max()) or 1.0
    apart = np.abs(loads[:, None] - known[None]).max(axis=2)
    near, exact = apart.argmin(axis=1), apart.min(axis=1) <= SAME_LOAD_REL * size
    if exact.all():
        return np.asarray(values[:, near])
    single = not known[:, 1].any() and not loads[:, 1].any()
    if not single:
        missing = loads[~exact][0]
        raise InputError(f"{measure}: the loads {missing.tolist()} were not solved; name them in at= of condition")
    order = np.argsort(known[:, 0])
    x = known[order, 0]
    outside = (loads[:, 0] < x[0] - SAME_LOAD_REL * size) | (loads[:, 0] > x[-1] + SAME_LOAD_REL * size)
    if outside.any():
        raise InputError(
            f"{measure}: load {loads[outside][0, 0]:g} is outside of what was solved, {x[0]:g} .. {x[-1]:g}; name it in at= of "
            "condition"
        )
    return np.asarray(PchipInterpolator(x, values[:, order], axis=1)(np.clip(loads[:, 0], x[0], x[-1])))


def fitted_curve(s: Floats, loads: Floats, values: Floats, measure: str) -> Curve:
    """Return the polynomials of a measure.

    Parameters
    ----------
    s
        Samples in the box, (k, q).
    loads
        Solved loads (m, 2), the first at rest.
    values
        Of the measure, (k, m).
    measure
        For messages.

    Raises
    ------
    InputError
        There are too few samples.
    """
    change = values[:, 1:] - values[:, :1]
    one_sign = bool(len(change)) and (np.all(change > 0.0) or np.all(change < 0.0))
    choices = [(values, False)]
    if one_sign:
        choices.append((np.hstack([values[:, :1], np.log(np.abs(change))]), True))
    sign = float(np.sign(change.flat[0])) if change.size else 1.0
    best: Curve | None = None
    degrees = [n for n in range(HIGHEST_DEGREE + 1) if len(total_degree(s.shape[1], n)) * ROWS_PER_TERM <= len(s)]
    for outputs, logarithmic in choices:
        for degree in degrees:
            made = _one_fit(s, loads, outputs, degree, (logarithmic, sign))
            if best is None or made.left[1:].sum() < best.left[1:].sum():
                best = made
    if best is None:
        raise InputError(f"{measure}: {len(s)} solved samples are too few for {s.shape[1]} unknowns; allow more solves")
    return best


def _one_fit(s: Floats, loads: Floats, outputs: Floats, degree: int, kind: tuple[bool, float]) -> Curve:
    """Return the fit of a degree, with the errors of left-out samples by the diagonal of the hat matrix."""
    logarithmic, sign = kind
    exponents: Ints = total_degree(s.shape[1], degree)
    terms = PolynomialChaos(exponents, np.zeros((0, 0))).terms(s)
    weights = np.linalg.lstsq(terms, outputs, rcond=None)[0]
    q = np.linalg.qr(terms)[0]
    off = (outputs - terms @ weights) / np.maximum(1.0 - np.sum(q**2, axis=1), 1e-3)[:, None]
    rms = np.sqrt(np.mean(off**2, axis=0))
    if logarithmic:
        rms[0] = 0.0
    else:
        size = np.sqrt(np.mean((outputs - outputs[:, :1]) ** 2, axis=0))
        rms = rms / np.where(size > 0.0, size, np.inf)
    return Curve(loads, PolynomialChaos(exponents, np.asarray(weights, dtype=float)), logarithmic, sign, rms)
