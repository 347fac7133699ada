"""reduce(robot, bounds): equilibria over a box of controls, a basis of their displacements, polynomials, and a bound.

1. samples: the corners and the middle of the box, points that fill it (Sobol);
2. at each the equilibrium, and by its tangent the rates of positions and measures by all controls;
3. basis: singular vectors of displacements and rates, as many as a tenth of the accuracy asks for;
4. polynomials of the degree that predicts left-out samples best;
5. more points that fill the box, until left-out samples are met;
6. the bound: the largest error at 59 new equilibria; where it is too large they become samples, and others follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

from geosim.apps.bridges.chaos import PolynomialChaos, fitted, highest_degree
from geosim.apps.bridges.reduced import MEASURES, ReducedModel
from geosim.arguments import guarded
from geosim.arrays import Floats, number, whole
from geosim.errors import InputError
from geosim.measures.spine import spine
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.controls import SteerableRobot, box_of
from geosim.response.derivatives.equilibrium import NoUniqueTangentError
from geosim.response.equilibria import EquilibriumFunction
from geosim.response.rod_equilibria import Solver, default_solver, function_of
from geosim.result import Result
from geosim.solve import solve_many

HELD_OUT = 59  # the largest of so many errors bounds 95 % of all with 95 % confidence: 1 - 0.95^59 = 0.95
FOLDS = 5  # of the samples, each left out once
BATCH = 4  # samples that are added at a time


@dataclass(frozen=True)
class Sample:
    """An equilibrium in scaled controls: positions (n, 3), measures (q,), and their derivatives (m, n, 3), (m, q)."""

    s: Floats
    positions: Floats
    measures: Floats
    position_rates: Floats
    measure_rates: Floats


@guarded
def reduce(
    robot: SteerableRobot,
    bounds: Any = None,
    vary: str = "pressure",
    environment: Environment | None = None,
    solver: Solver | None = None,
    accuracy: float = 0.01,
    max_solves: int = 400,
    workers: int | None = None,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> ReducedModel:
    """Return a reduced model of a robot over a box of controls.

    Parameters
    ----------
    robot, environment, solver
        As in `solve`. Nothing may depend on history: no friction.
    bounds
        Least and largest value (2,) of all controls, or of each (m, 2): volume ratios, [Pa], [m] or [N]; default as in
        `solve_for`.
    vary
        "pressure", "volume_ratio", "cable_length" or "cable_tension".
    accuracy
        Wanted bound of the tip over its largest way in the box.
    max_solves
        Equilibria at most; where they do not suffice the bound is what it is.
    workers
        As in `solve_many`.
    seed
        Of what is drawn.
    progress
        Told the number of equilibria so far.

    Raises
    ------
    InputError
        A place of the box has no equilibrium (it is named), or the robot has no such controls.
    """
    solver = default_solver(robot, solver, "reduce", check_stability=False)
    if vary == "curvature":
        raise InputError(
            "reduce: a model commands cables or chambers; vary = 'curvature' goes with solve_for and geosim.torch"
        )
    box = box_of(robot, vary, bounds, "reduce")
    environment = Environment() if environment is None else environment
    frictions = [
        environment.self_friction,
        *(o.friction for o in environment.obstacles),
        *(c.friction for c in robot.cables),
    ]
    if max(frictions) > 0.0 or any(o.free for o in environment.obstacles):
        raise InputError(
            "reduce: friction and free objects remember their history, a reduced model does not; leave them out"
        )
    if not len(robot.fixed if isinstance(robot, VolumetricRobot) else robot.fixed_vertices):
        raise InputError("reduce: a free body has no place of its own; hold it somewhere (fixed)")
    accuracy = number(accuracy, "reduce: accuracy", above=0.0, high=1.0)
    whole(max_solves, "reduce: max_solves", least=HELD_OUT + 2 ** min(len(box), 3) + 1)
    bends, chambers = spine(robot) is not None, robot.chambers > 0
    names = ("positions", *["bend_angle"] * bends, *["chamber_pressures", "chamber_volumes"] * chambers)
    function = function_of(robot, vary, of=names, environment=environment, solver=solver, workers=workers)
    return Reduction(function, box, accuracy, max_solves, seed, progress).run()


@dataclass
class Reduction:
    """One reduction; `run` reads like the algorithm."""

    function: EquilibriumFunction
    box: Floats
    accuracy: float
    max_solves: int
    seed: int
    progress: Callable[[int], object] | None = None
    solves: int = 0

    def run(self) -> ReducedModel:
        """Return the model."""
        m = len(self.box)
        fill = qmc.Sobol(m, rng=np.random.default_rng(self.seed))
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=min(m, 3))))
        corners = np.hstack([corners, np.zeros((len(corners), m - min(m, 3)))])
        with_middle = np.vstack([corners, np.zeros((1, m))])
        samples = self._sampled(np.vstack([with_middle, 2.0 * fill.random(2 ** (m // 2 + 1)) - 1.0]))
        held_rng = np.random.default_rng((self.seed, 1))
        while True:
            while True:
                fit = self._fitted(samples)
                left = _most(fit.left_out)
                room = self.max_solves - self.solves - HELD_OUT
                if left <= 0.5 * self.accuracy * fit.motion or room < BATCH:
                    break
                samples += self._sampled(2.0 * fill.random(BATCH) - 1.0)
            held = self._sampled(held_rng.uniform(-1.0, 1.0, (HELD_OUT, m)), rates=False)
            errors = np.array([fit.errors(self.function.robot, h) for h in held]).max(axis=0)
            if errors[1] <= self.accuracy * fit.motion or self.max_solves - self.solves < HELD_OUT + BATCH:
                return self._model(fit, errors)
            samples += self._sampled(np.array([h.s for h in held[: self.max_solves - self.solves - HELD_OUT]]))

    # ---- equilibria

    def _sampled(self, places: Floats, *, rates: bool = True) -> list[Sample]:
        """Return the equilibria at places (k, m) in [-1, 1]."""
        u = self.box.mean(axis=1) + 0.5 * np.ptp(self.box, axis=1) * places
        problems = [self.function.problem(row) for row in u]
        out = []
        for start in range(0, len(problems), 16):  # a batch at a time: results keep their factors
            for row, s, result in zip(
                u[start:], places[start:], solve_many(problems[start : start + 16], self.function.workers)
            ):
                if not result.converged:
                    raise InputError(
                        f"reduce: no equilibrium at {self.function.vary} = {row.tolist()}: {result.message} Give narrower bounds."
                    )
                out.append(self._read(result, s, rates))
                self.solves += 1
            if self.progress is not None:
                self.progress(self.solves)
        return out

    def _read(self, result: Result, s: Floats, rates: bool) -> Sample:
        """Return positions and measures, and their rates by the tangent."""
        function, (m, n) = self.function, (len(self.box), len(self.function.robot.vertices))
        positions, *values = (one[0] for one in function.outputs([result]))
        try:
            by_positions, *by_values = function.slopes(result) if rates else [np.zeros((3 * n, m))]
        except NoUniqueTangentError as error:
            raise InputError(f"reduce: a fold or a fork of the path at {s.tolist()} of the box ({error})") from None
        half, lineless = 0.5 * np.ptp(self.box, axis=1), "bend_angle" not in function.of
        measures = np.concatenate([np.zeros(int(lineless)), *map(np.ravel, values)])
        changed = np.vstack([np.zeros((int(lineless), m)), *by_values]) if rates else np.zeros((len(measures), m))
        return Sample(s, positions, measures, (half * by_positions).T.reshape(m, n, 3), (half * changed).T)

    # ---- fits

    def _fitted(self, samples: list[Sample]) -> Fit:
        body = np.flatnonzero(self.function.robot.body_vertices)
        rest = self.function.robot.vertices
        moved = np.array([(x.positions - rest)[body].ravel() for x in samples])
        rates = np.array([x.position_rates[:, body].reshape(len(self.box), -1) for x in samples])
        tips = np.array(
            [self.function.robot.tip_weights @ (x.positions - rest)[self.function.robot.tip] for x in samples]
        )
        motion = float(np.ptp(tips, axis=0).max())
        motion = max(motion, float(np.linalg.norm(tips, axis=1).max()))
        _, sizes, vectors = np.linalg.svd(np.vstack([moved, rates.reshape(-1, moved.shape[1])]), full_matrices=False)
        basis = vectors[:0]
        basis_share = 0.1  # of the accuracy: what the basis may miss of any sample
        for rank in range(1, len(vectors) + 1):
            basis = vectors[:rank]
            missed = (moved - moved @ basis.T @ basis).reshape(len(moved), -1, 3)
            if (
                np.linalg.norm(missed, axis=2).max() <= basis_share * self.accuracy * motion
                or sizes[rank - 1] < 1e-12 * sizes[0]
            ):
                break
        s = np.array([x.s for x in samples])
        values = np.hstack([moved @ basis.T, np.array([x.measures for x in samples])])
        slopes = np.concatenate([rates @ basis.T, np.array([x.measure_rates for x in samples])], axis=2)
        max_degree = 14  # beyond it powers of s cancel in double precision
        highest = min(highest_degree(len(s) - -(-len(s) // FOLDS), len(self.box)), max_degree)
        degrees = range(max(1, highest - 3), highest + 1)
        missed_by = {d: _cross_validated(s, values, slopes, d, basis) for d in degrees}
        degree = min(missed_by, key=lambda d: _most(missed_by[d]))
        return Fit(basis, fitted(s, values, slopes, degree), motion, missed_by[degree])

    def _model(self, fit: Fit, errors: Floats) -> ReducedModel:
        robot, around = self.function.robot, self.function.environment
        body = np.flatnonzero(robot.body_vertices)
        if "bend_angle" not in self.function.of:
            errors = np.where(np.arange(len(MEASURES)) == MEASURES.index("bend_angle"), np.nan, errors)
        return ReducedModel(
            robot.name,
            self.function.vary,
            self.box,
            fit.chaos.exponents,
            fit.chaos.weights,
            fit.basis.reshape(len(fit.basis), -1, 3).transpose(1, 2, 0),
            robot.vertices,
            body,
            robot.skin,
            robot.tip,
            robot.tip_weights,
            dict(zip(MEASURES, errors.tolist())),
            fit.motion,
            robot.size,
            self.solves,
            (0.0, 0.0, 0.0) if around is None else around.gravity,
        )


@dataclass(frozen=True)
class Fit:
    """A basis (r, 3 b), the polynomials, the tip's largest way [m], errors of left-out samples [m]."""

    basis: Floats
    chaos: PolynomialChaos
    motion: float
    left_out: Floats

    def errors(self, robot: SteerableRobot, held: Sample) -> Floats:
        """Return the errors at an equilibrium: of any vertex, the tip [m], bend angle, pressures, volumes."""
        out, r = self.chaos(held.s), len(self.basis)
        body = robot.body_vertices
        moved = robot.vertices.copy()
        moved[body] += (out[:r] @ self.basis).reshape(-1, 3)
        off = moved - held.positions
        found = np.abs(out[r:] - held.measures)
        c = (len(found) - 1) // 2
        return np.array(
            [
                np.linalg.norm(off[body], axis=1).max(),
                np.linalg.norm(robot.tip_weights @ off[robot.tip]),
                found[0],
                found[1 : 1 + c].max(initial=0.0),
                found[1 + c :].max(initial=0.0),
            ]
        )


def _most(errors: Floats) -> float:
    """Return what nine tenths of the errors of samples [m] stay below."""
    return float(np.quantile(errors, 0.9))


def _cross_validated(s: Floats, values: Floats, slopes: Floats, degree: int, basis: Floats) -> Floats:
    """Return the largest error of any vertex [m] of every sample (k,) by the fits that it was left out of."""
    r = len(basis)
    out = np.zeros(len(s))
    for fold in range(FOLDS):
        left = np.arange(len(s)) % FOLDS == fold
        if not left.any():
            continue
        off = fitted(s[~left], values[~left], slopes[~left], degree)(s[left])[:, :r] - values[left][:, :r]
        out[left] = np.linalg.norm((off @ basis).reshape(len(off), -1, 3), axis=2).max(axis=1)
    return out
