"""A reduced model: controls -> shape and measures of an equilibrium in microseconds, with a bound of its error.

Displacements are those of an orthonormal basis, x = X + B c(u); coefficients c and measures are polynomials of the controls
(`chaos`), made by `reducing.reduce`. A bound is the largest error at 59 equilibria that nothing was fitted to, drawn evenly
over the box: with 95 % confidence it holds for 95 % of the box [Wilks 1941, Ann. Math. Stat. 12], whatever the errors look
like (split conformal prediction with the confidence said).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from pydantic import BaseModel
from scipy.optimize import least_squares

from geosim.apps.bridges.chaos import PolynomialChaos
from geosim.arguments import guarded
from geosim.arrays import Floats, Ints, brief, floats, frozen, ints, number, real_array, shown
from geosim.errors import InputError
from geosim.files.npz import Layout, Numbers, read_npz, write_npz
from geosim.model.actuation import Actuation
from geosim.model.display import later
from geosim.response.controls import CONTROLS
from geosim.response.inverse.goals import Goal, as_goals
from geosim.response.live import LiveLoop
from geosim.writing import checked_target, replacing

MEASURES = ("shape", "tip", "bend_angle", "chamber_pressures", "chamber_volumes")  # what a bound is known of
OUTSIDE_BOX_REL = 1e-9  # of the box: controls that are outside by rounding are on its side
MAX_DEGREE = 60  # of a polynomial: powers of Legendre polynomials lose all digits beyond it
ARRAYS = {
    "rest": Numbers(("vertices", 3)),
    "box": Numbers(("controls", 2)),
    "exponents": Numbers(("terms", "controls"), whole=True, least=0, most=MAX_DEGREE),
    "weights": Numbers(("terms", "outputs")),
    "basis": Numbers(("body", 3, "rank")),
    "body": Numbers(("body",), whole=True, least=0),
    "skin": Numbers(("faces", 3), whole=True, least=0),
    "tip_ids": Numbers(("tip",), whole=True, least=0),
    "tip_weights": Numbers(("tip",), least=0.0, most=1.0),
}


class Header(BaseModel):
    """The header of a model in a file."""

    name: str
    vary: str
    motion: float
    size: float
    solves: int
    bounds: dict[str, float]
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)


REDUCED = Layout("reduced model", "make one with geosim reduce", "about", Header, lambda header: ARRAYS)


@guarded
@dataclass(frozen=True)
class ReducedShape:
    """What a reduced model says of one command, in SI units.

    Parameters
    ----------
    controls
        The command (m,).
    tip
        [m] (3,).
    bend_angle
        [rad]; nan of a robot without a centre line.
    chamber_pressures, chamber_volumes
        [Pa], [m^3], (c,).
    bounds
        Measure -> how far it is off at most, for 95 % of the box: "shape" of any vertex [m], "tip" [m] (lengths of vectors),
        "bend_angle" [rad], "chamber_pressures" [Pa], "chamber_volumes" [m^3] (of any chamber).
    """

    controls: Floats
    tip: Floats
    bend_angle: float
    chamber_pressures: Floats
    chamber_volumes: Floats
    bounds: Mapping[str, float]
    coefficients: Floats = field(repr=False)
    model: ReducedModel = field(repr=False)

    @cached_property
    def positions(self) -> Floats:
        """Positions of the vertices [m] (n, 3) in the robot's numbering; those of no body stay at rest."""
        return self.model.positions(self.coefficients)

    @property
    def skin(self) -> tuple[Floats, Ints]:
        """Positions [m] (n, 3) and the triangles of the outer skin (f, 3)."""
        return self.positions, self.model.skin


@dataclass(frozen=True)
class ReducedInverse:
    """Controls that bring a reduced model to goals: `.controls` (m,), `.shape`, `.reached`, `.distance` as of `Inverse`."""

    controls: Floats
    shape: ReducedShape
    reached: bool
    distance: float
    actuation: Actuation


@guarded
@dataclass(frozen=True)
class ReducedModel:
    """Controls -> shape and measures; made by `geosim.reduce`, called with controls (m,).

    Parameters
    ----------
    name
        Of the robot.
    vary
        "volume_ratio", "pressure" [Pa], "cable_length" [m] or "cable_tension" [N].
    box
        Least and largest value of every control (m, 2).
    exponents, weights
        Of the polynomials (see `chaos.PolynomialChaos`): coefficients of the basis, bend angle, pressures, volumes of chambers.
    basis
        Displacements of the body's vertices for every coefficient (b, 3, r), orthonormal.
    rest
        Rest positions [m] (n, 3).
    body, skin, tip_ids, tip_weights
        Vertices of the body (b,), triangles of the skin (f, 3), vertices of the tip and their weights.
    bounds
        Measure -> bound of its error, see `ReducedShape`.
    motion
        Largest way of the tip in the box [m].
    size
        Diagonal of the robot [m].
    solves
        How many equilibria it was made of, those of the bound included.
    gravity
        Under which they were [m/s^2] (3,).
    """

    name: str
    vary: str
    box: Floats
    exponents: Ints
    weights: Floats
    basis: Floats
    rest: Floats
    body: Ints
    skin: Ints
    tip_ids: Ints
    tip_weights: Floats
    bounds: Mapping[str, float]
    motion: float
    size: float
    solves: int
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)

    __repr__ = brief

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.vary not in CONTROLS:
            raise InputError(f"ReducedModel: vary = {shown(self.vary)} is unknown; use one of {', '.join(CONTROLS)}")
        lengths: dict[str, int] = {}
        for key, numbers in ARRAYS.items():
            array = real_array(getattr(self, key), f"ReducedModel: {key}")
            wrong = numbers.problem(array, lengths)
            if wrong:
                raise InputError(f"ReducedModel: {key} {wrong}")
            put(self, key, frozen(array.astype(np.int64) if numbers.whole else array))
            if key in ("body", "skin", "tip_ids") and array.max(initial=0.0) >= len(self.rest):
                raise InputError(f"ReducedModel: {key} names vertex {array.max():g} of {len(self.rest)}")
        put(self, "bounds", MappingProxyType(_bounds(self.bounds)))
        put(self, "gravity", tuple(floats(self.gravity, "ReducedModel: gravity", (3,)).tolist()))
        number(self.motion, "ReducedModel: motion", low=0.0)
        number(self.size, "ReducedModel: size", above=0.0)
        wrong = self._wrong()
        if wrong:
            raise InputError(f"ReducedModel: {wrong}")

    def _wrong(self) -> str:
        """Return what does not go together in the arrays of a model, or nothing."""
        if (self._outputs - self.rank - 1) % 2 or self._outputs <= self.rank:
            return "basis and weights do not belong together"
        if not (np.diff(self.box) > 0.0).all() or not np.isin(self.tip_ids, self.body).all():
            return f"box = {shown(self.box.tolist())} is no box, or the tip is of no body"
        rounding = 1e-6  # of a basis that another machine made
        flat = self.basis.reshape(-1, self.rank)
        if np.abs(flat.T @ flat - np.eye(self.rank)).max(initial=0.0) > rounding:
            return "basis is not orthonormal"
        # Legendre polynomials are at most 1 in the box, so no vertex moves further than the sum of the terms.
        reach = np.abs(self.weights[:, : self.rank]).sum(axis=0).max(initial=0.0)
        most_reach = 10.0 * self.size * np.sqrt(len(self.body))
        if reach > most_reach:
            return f"weights move the robot by {reach:.3g} m; its size is {self.size:.3g} m"
        return ""

    # ---- evaluation

    @property
    def rank(self) -> int:
        """Number of basis vectors."""
        return int(self.basis.shape[2])

    @property
    def _outputs(self) -> int:
        return int(self.weights.shape[1])

    @property
    def _chambers(self) -> int:
        return (self._outputs - self.rank - 1) // 2

    @cached_property
    def chaos(self) -> PolynomialChaos:
        """The polynomials."""
        return PolynomialChaos(self.exponents, self.weights)

    @cached_property
    def scale(self) -> tuple[Floats, Floats]:
        """Middle and half width of the box."""
        return self.box.mean(axis=1), 0.5 * np.ptp(self.box, axis=1)

    @cached_property
    def place(self) -> Ints:
        """Where every vertex is among those of the body, (n,); -1 of no body."""
        out = np.full(len(self.rest), -1)
        out[self.body] = np.arange(len(self.body))
        return out

    @cached_property
    def tip_at_rest(self) -> tuple[Floats, Floats]:
        """Tip at rest (3,), and its displacement for every coefficient (3, r)."""
        place = self.place
        return self.tip_weights @ self.rest[self.tip_ids], np.einsum(
            "t,tir->ir", self.tip_weights, self.basis[place[self.tip_ids]]
        )

    def scaled(self, controls: Any) -> Floats:
        """Return controls (..., m) in [-1, 1].

        Raises
        ------
        InputError
            There are more or fewer, or they are outside of the box: nothing is known there.
        """
        u = real_array(controls, "ReducedModel: controls")
        middle, half = self.scale
        if u.shape[-1:] != middle.shape:
            raise InputError(f"ReducedModel: controls of shape {u.shape} are given; {self.name} has {len(middle)}")
        s = (u - middle) / half
        if not (np.abs(s) <= 1.0 + OUTSIDE_BOX_REL).all():
            raise InputError(
                f"ReducedModel: {self.vary} = {shown(u.tolist())} is outside of {shown(self.box.tolist())}, the box that the "
                f"model knows; reduce the robot with wider bounds, or solve it"
            )
        return s

    def outputs(self, controls: Any) -> Floats:
        """Return coefficients, bend angle, pressures and volumes of controls (..., m) side by side, (..., outputs)."""
        return self.chaos(self.scaled(controls))

    def __call__(self, controls: Any) -> ReducedShape:
        """Return shape and measures under one command (m,).

        Raises
        ------
        InputError
            It is outside of the box.
        """
        u = real_array(controls, "ReducedModel: controls")
        out, r = self.outputs(u), self.rank
        if out.ndim != 1:
            raise InputError(f"ReducedModel: {shown(u.tolist())} is no single command (m,); `outputs` takes several")
        (rest, by), c = self.tip_at_rest, self._chambers
        bend = float(out[r]) if self.bounds["bend_angle"] == self.bounds["bend_angle"] else np.nan
        return ReducedShape(
            u, rest + by @ out[:r], bend, out[r + 1 : r + 1 + c], out[r + 1 + c :], self.bounds, out[:r], self
        )

    def positions(self, coefficients: Floats) -> Floats:
        """Return positions of the vertices [m] (n, 3) of coefficients (r,)."""
        out = self.rest.copy()
        out[self.body] += self.basis @ floats(coefficients, "ReducedModel: coefficients", (self.rank,))
        return out

    def tips(self, controls: Any) -> Floats:
        """Return tips [m] (..., 3) of controls (..., m)."""
        rest, by = self.tip_at_rest
        return np.asarray(rest + self.outputs(controls)[..., : self.rank] @ by.T)

    def jacobian(self, of: str, controls: Any) -> Floats:
        """Return the derivative of "tip", "bend_angle", "chamber_pressures" or "chamber_volumes" by the controls, (..., m)."""
        rows = self._rows(of)
        return np.asarray(rows @ (self.chaos.jacobian(self.scaled(controls)) / self.scale[1]))

    def _rows(self, of: str) -> Floats:
        """Return the linear map from outputs to a measure less its value at rest."""
        r, c, eye = self.rank, self._chambers, np.eye(self._outputs)
        if of == "tip":
            return self.tip_at_rest[1] @ eye[:r]
        known = {
            "bend_angle": eye[r : r + 1],
            "chamber_pressures": eye[r + 1 : r + 1 + c],
            "chamber_volumes": eye[r + 1 + c :],
        }
        if of not in known:
            raise InputError(f"ReducedModel: {of!r} is not known; use tip, {', '.join(known)}")
        return known[of]

    def actuation(self, controls: Any) -> Actuation:
        """Return the command that `solve` takes, for the exact answer."""
        self.scaled(controls)
        return CONTROLS[self.vary].make(np.asarray(controls, dtype=float))

    # ---- inverse problems

    def solve_for(self, goals: Goal | Sequence[Goal], start: Any = None) -> ReducedInverse:
        """Return the controls in the box that bring the model to goals, or nearest to them.

        Parameters
        ----------
        goals
            `Goal.tip`, `Goal.bend_angle` or `Goal.pressure`, one or several.
        start
            Where the search begins (m,), the command before in a loop; default the middle of the box.

        Raises
        ------
        InputError
            A goal is of something that the model does not know.
        """
        goals = as_goals(goals, "ReducedModel.solve_for")
        for goal in goals:
            if goal.of == "chamber_pressures" and goal.index >= self._chambers:
                raise InputError(f"goal: chamber_pressures[{goal.index}] is asked for, and there are {self._chambers}")
        rows, rest = [self._rows(g.of) for g in goals], [self.tip_at_rest[0] if g.of == "tip" else 0.0 for g in goals]

        def read(s: Floats) -> list[tuple[Floats, Floats]]:
            out = self.chaos(s)
            return [g.measured(still + by @ out) for g, by, still in zip(goals, rows, rest)]

        def misses(s: Floats) -> Floats:
            return np.concatenate([g.weight * (value - g.value) for g, (value, _) in zip(goals, read(s))])

        def slopes(s: Floats) -> Floats:
            out = self.chaos.jacobian(s)
            return np.vstack([g.weight * (mine @ by @ out) for g, by, (_, mine) in zip(goals, rows, read(s))])

        s = self._descended(misses, slopes, start, np.array([g.weight for g in goals]))
        u = np.clip(self.scale[0] + self.scale[1] * s, *self.box.T)
        reached = all(np.linalg.norm(v - g.value) <= g.tolerance(self.size) for g, (v, _) in zip(goals, read(s)))
        distance = float(np.linalg.norm(misses(s)))
        return ReducedInverse(u, self(u), reached, distance, self.actuation(u))

    def estimate(
        self, markers: Any, vertices: Any, noise: float = 1e-4, before: Any = None, drift: float = 0.1
    ) -> ReducedShape:
        """Return the state that measured places of vertices say, and what was known before.

        Minimises `|(x_v(u) - y) / noise|^2 + |(u - before) / (drift half box)|^2` over the box.

        Parameters
        ----------
        markers
            Measured places [m] (q, 3) in the robot's axes; rows with nan were not seen.
        vertices
            At which vertices they are (q,).
        noise
            Standard deviation of a coordinate [m].
        before
            Controls (m,) of the period before; None: nothing is known.
        drift
            Standard deviation of their change in a period, over half the box.

        Raises
        ------
        InputError
            A vertex is of no body, or no marker was seen.
        """
        given = real_array(markers, "ReducedModel.estimate: markers")
        ids = ints(vertices, "ReducedModel.estimate: vertices", (None,), below=len(self.rest))
        number(noise, "ReducedModel.estimate: noise", above=0.0)
        number(drift, "ReducedModel.estimate: drift", above=0.0)
        if given.shape != (len(ids), 3):
            raise InputError(f"ReducedModel.estimate: markers of shape {given.shape} for {len(ids)} vertices")
        seen = np.isfinite(given).all(axis=1)
        place = self.place
        if not seen.any() or (place[ids] < 0).any():
            raise InputError("ReducedModel.estimate: no marker was seen, or a vertex belongs to no body")
        rows = self.basis[place[ids[seen]]].reshape(-1, self.rank) / noise
        missing = (given[seen] - self.rest[ids[seen]]).ravel() / noise
        eye = np.eye(len(self.box)) / drift
        known = (
            None if before is None else self.scaled(floats(before, "ReducedModel.estimate: before", self.box.shape[:1]))
        )

        def misses(s: Floats) -> Floats:
            out = rows @ self.chaos(s)[: self.rank] - missing
            return out if known is None else np.concatenate([out, (s - known) / drift])

        def slopes(s: Floats) -> Floats:
            out = rows @ self.chaos.jacobian(s)[: self.rank]
            return out if known is None else np.vstack([out, eye])

        s = self._descended(misses, slopes, before, np.ones(1))
        return self(np.clip(self.scale[0] + self.scale[1] * s, *self.box.T))

    def _descended(self, misses: Any, slopes: Any, start: Any, weights: Floats) -> Floats:
        """Return the point of [-1, 1]^m with the least squares of the misses."""
        count = len(self.box)
        s = np.zeros(count) if start is None else self.scaled(floats(start, "ReducedModel: start", (count,)))
        small = 1e-12  # of the misses at the start, and of their changes: rounding
        size = max(float(np.linalg.norm(misses(s))), small * float(weights.max()))
        found = least_squares(
            lambda s: misses(s) / size,
            np.clip(s, -1.0 + 1e-6, 1.0 - 1e-6),  # the method wants to begin inside
            lambda s: slopes(s) / size,
            bounds=(-1.0, 1.0),
            xtol=small,
            ftol=small,
            gtol=small,
        )
        return np.asarray(found.x)

    def live(self, lag: float = 0.0) -> LiveLoop[ReducedShape]:
        """Return a control loop over this model, microseconds a step; `lag` is that of the supply [s].

        It begins where the box of controls is nearest to rest.
        """
        rest = 1.0 if self.vary == "volume_ratio" else 0.0
        start = self.box[:, 1] if self.vary == "cable_length" else np.clip(rest, *self.box.T)
        return LiveLoop(self, start, self.box, number(lag, "live: lag", low=0.0))

    # ---- files

    def save(self, path: str | Path) -> Path:
        """Write the model (.npz), or the graph of controls -> outputs and positions (.onnx); the path is returned.

        Raises
        ------
        InputError
            The suffix or the folder is wrong, or onnx is not installed.
        """
        path = checked_target(path, ".npz", ".onnx")
        if path.suffix.lower() == ".onnx":
            return Path(later("files.onnx.write_model")(self, path, OUTSIDE_BOX_REL))
        about = {k: getattr(self, k) for k in ("name", "vary", "motion", "size", "solves", "gravity")} | {
            "bounds": dict(self.bounds)
        }
        with replacing(path) as beside, beside.open("wb") as file:
            write_npz(file, REDUCED, about, {key: getattr(self, key) for key in ARRAYS})
        return path

    @classmethod
    def load(cls, path: str | Path) -> ReducedModel:
        """Return the model of a file that `save` wrote.

        Raises
        ------
        InputError
            It is none.
        """
        about, arrays, _ = read_npz(Path(path), REDUCED)
        try:
            kept: dict[str, Any] = {**about.model_dump(), **arrays}
            return cls(**kept)
        except InputError as error:
            raise InputError(f"{path}: {error}; {REDUCED.remedy}") from None


def _bounds(given: Mapping[str, float]) -> dict[str, float]:
    """Return the bounds of a model, in the order of `MEASURES`."""
    if set(given) != set(MEASURES):
        raise InputError(f"ReducedModel: bounds = {shown(dict(given))} must name {', '.join(MEASURES)}")
    for name, bound in given.items():
        if not (0.0 <= bound < np.inf or (name == "bend_angle" and np.isnan(bound))):
            raise InputError(f"ReducedModel: the bound of {name} = {bound:g} is impossible")
    return {name: float(given[name]) for name in MEASURES}
