"""Paths of equilibria of rods and shells: through limit points, and onto the branches that leave them.

A path f(q, s) = 0, s the share of a command, is followed by its length, as [Riks 1979, Int. J. Solids Struct. 15]: s is an
unknown, too, and every point lies in the plane across the step that predicts it,

    K dq + ds df/ds = -f,        p . D (dq, ds) = 0,

p the step along the tangent (v, 1), v = -K^-1 df/ds, D lengths over those of an edge, angles in radians and s as it is.

Where the path changes its stability the step is halved until both sides are close. The path turns there, a limit point, where the
tangents of the two sides have ds of different signs; else another path crosses, a bifurcation. Its tangent at a symmetric one
is the mode along which the energy begins to fall, with ds = 0: a step along it, corrected in the plane across, is a
point on the other path [Wagner and Wriggers 1988, Eng. Comput. 5].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Bools, Floats, Ints, number, whole
from geosim.errors import InputError
from geosim.linear.sparse import Blocks
from geosim.model.actuation import Actuation
from geosim.model.contract import State
from geosim.model.environment import Environment
from geosim.rods.balance import NO_TENSION, Balance, step_size
from geosim.rods.drive import Drive, make_drive
from geosim.rods.elastic import linear_tensions
from geosim.rods.newton import Solution
from geosim.rods.robot import RodShellRobot
from geosim.rods.stability import falling_mode
from geosim.rods.state import RodState, carry
from geosim.rods.stepper import RodShellStepper
from geosim.rods.terms import DIFFERENCE_STEP_REL
from geosim.rods.untouched import IncrementNewton


@dataclass(frozen=True, eq=False)
class EquilibriumPath:
    """Equilibria on the way to a command, in the order in which the path meets them.

    Parameters
    ----------
    shares
        Of the command (k,): 0 at the start, 1 where all of it acts; not monotonic where the path turns.
    frames
        Positions of the vertices [m], (k, n, 3).
    unstable
        Whether the energy falls along some mode there (k,).
    bifurcations
        Points next to which another path crosses (b,): the equilibria change their stability there, and the path does not turn.
    state
        The last point, from which `solve(initial=)` and other paths go on.
    """

    shares: Floats
    frames: Floats
    unstable: Bools
    bifurcations: Ints
    state: RodState

    @property
    def limit_points(self) -> Ints:
        """Points at which the share turns, in order; where the path was left for another is none."""
        way = np.sign(np.diff(self.shares))
        turns = np.flatnonzero(way[1:] * way[:-1] < 0) + 1
        return np.setdiff1d(turns, np.concatenate([self.bifurcations, self.bifurcations + 1]))

    @property
    def limit_shares(self) -> Floats:
        """Shares at the limit points: those of the parabolas through three points, over the way that the vertices went."""
        at = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(self.frames, axis=0), axis=(1, 2)))])
        found = []
        for i in self.limit_points:
            s = at[i - 1 : i + 2] - at[i]
            a, b, c = np.polyfit(s, self.shares[i - 1 : i + 2], 2)
            found.append(c - b * b / (4.0 * a))
        return np.array(found)


def equilibrium_path(
    robot: RodShellRobot,
    actuation: Actuation,
    environment: Environment | None = None,
    *,
    initial: State | None = None,
    branch: bool = False,
    step: float = 0.05,
    points: int = 200,
    tolerance: float = 1e-8,
) -> EquilibriumPath:
    """Follow the equilibria from rest, or another equilibrium, to the first command, by the length of the path.

    Loads, supports and natural shapes go together from where they are to the command. Contact is not followed.

    Parameters
    ----------
    robot, actuation, environment
        As of `solve`; in an environment without obstacles.
    initial
        The equilibrium at which the path begins: `Result.state` of statics, or `EquilibriumPath.state`. None: the rest shape.
    branch
        Whether a path that loses its stability at a bifurcation is left for the one that crosses it there, along the mode whose
        largest displacement is positive.
    step
        The longest step: rotations of edges and theta [rad], stretches and the share, of which the largest counts.
    points
        Equilibria at most; fewer where the whole command is reached.
    tolerance
        Of every equilibrium, over the largest internal force or moment.

    Raises
    ------
    InputError
        There are obstacles, the robot or the start are not taken by `RodShellStepper`, or no equilibrium is met by the first
        step, or by that to a branch.
    """
    environment = environment or Environment()
    if environment.obstacles:
        raise InputError(
            "equilibrium_path: obstacles are not followed; leave them out, or use RodShellStepper(static=True)"
        )
    number(step, "equilibrium_path: step [rad]", above=0.0)
    whole(points, "equilibrium_path: points", least=1)
    stepper = RodShellStepper(static=True)
    command = stepper.commands(robot, actuation)[0]
    start = stepper.start(robot, replace(environment, self_contact=False), initial)
    walk = _Walk(make_drive(start, command, static=True, newton=IncrementNewton(tolerance)))
    found, bifurcations = walk.follow(step, points, branch)
    if len(found) == 1:
        raise InputError("equilibrium_path: no equilibrium near the start; clamp the robot, or take smaller steps")
    return EquilibriumPath(
        np.array([point.share for point in found]),
        np.array([point.state.positions for point in found]),
        np.array([point.unstable for point in found]),
        np.array(bifurcations, dtype=np.int64),
        found[-1].state,
    )


@dataclass(frozen=True, eq=False)
class _PathPoint:
    """An equilibrium at a share of the command, and the tangent of the path (dq, ds) there, onwards.

    `mode` is one along which the energy falls, None where there is none; `iterations` those that led there.
    """

    state: RodState
    share: float
    dq: Floats
    ds: float
    mode: Floats | None
    iterations: int

    @property
    def unstable(self) -> bool:
        """Whether the energy falls along some mode."""
        return self.mode is not None


class _Walk:
    """The equations of a path: the balance at every share of a command."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        system = drive.start.system
        self.system = system
        self._weights = np.ones(system.dofs)
        self._weights[: system.turns] = system.mean_length**-2

    def begin(self) -> _PathPoint:
        """Return the first point, with the tangent to larger shares."""
        q = self.drive.start.q
        balance = self._balance(self.drive.start, 0.0)
        point = self._point(balance, Solution(q, *balance.residual(q), True, 0.0, 0), 0.0, np.zeros_like(q), 1.0)
        if point is None:
            raise InputError("equilibrium_path: nothing holds the robot; clamp it, or hold single components")
        return point

    def follow(self, step: float, points: int, branch: bool) -> tuple[list[_PathPoint], list[int]]:
        """Return the points from the first to the whole command, or to where the path ends, and which are bifurcations."""
        # of the longest step: below the first the path has ended, at the second a change of stability is where the point is
        min_step_share, critical_step_share = 1e-4, 1.0 / 64.0
        easy_iterations = 5  # of Newton's method, up to which a step grows by half
        point = self.begin()
        found, bifurcations, length = [point], [], step
        while len(found) <= points and point.share < 1.0:
            new = self.onwards(point, length)
            changes = new is not None and new.unstable != point.unstable
            if new is None or (changes and length > critical_step_share * step):
                if length <= min_step_share * step:
                    break
                length *= 0.5
                continue
            if changes and (new.ds > 0.0) == (point.ds > 0.0):
                bifurcations.append(len(found) - 1)
                if branch and new.mode is not None:
                    new = self.across(point, new.mode, step)
            length = min(1.5 * length, step) if new.iterations <= easy_iterations else length
            point = new
            found.append(point)
        return found, bifurcations

    def across(self, point: _PathPoint, mode: Floats, step: float) -> _PathPoint:
        """Return the first point of the path that crosses at a bifurcation, along a mode."""
        new = self.advance(point, *self.scaled(mode, 0.0, step))
        if new is None:
            raise InputError(
                f"equilibrium_path: the path that crosses at the share {point.share:.4g} is not met by a step of "
                f"{step:g} rad; take a smaller step, or branch=False"
            )
        return new

    def scaled(self, dq: Floats, ds: float, length: float) -> tuple[Floats, float]:
        """Return a step of some length: its largest rotation, stretch or change of the share."""
        edge, _, turn = step_size(dq, self.system.stencils.springs, self.system.rest, self.system.turns)
        scale = length / max(edge, turn, abs(ds))
        return scale * dq, scale * ds

    def onwards(self, point: _PathPoint, length: float) -> _PathPoint | None:
        """Return the point that a step of some length leads to, not beyond the whole command; None where there is none."""
        beyond = self.advance(point, *self.scaled(point.dq, point.ds, length))
        if beyond is None or beyond.share <= 1.0:
            return beyond
        ds = 1.0 - point.share
        dq = ds / (beyond.share - point.share) * (beyond.state.q - point.state.q)
        last = self.advance(point, dq, ds, (np.zeros_like(dq), 1.0))
        return None if last is None else replace(last, share=1.0)

    def advance(
        self, point: _PathPoint, dq: Floats, ds: float, plane: tuple[Floats, float] | None = None
    ) -> _PathPoint | None:
        """Return the point that a step leads to, in the plane across it or in another; None where there is none."""
        path_iterations = 12  # of Newton's method, after which a step is halved
        springs, rest, turns = self.system.stencils.springs, self.system.rest, self.system.turns
        normal, across = plane or (self._weights * dq, ds)
        way, q, share, start = (self._weights * dq, ds), point.state.q, point.share, point.state
        for iteration in range(path_iterations):
            edge, _, turn = step_size(dq, springs, rest, turns)
            if not max(edge, turn) < 1.0:
                return None
            lengths = self.system.rest_lengths(start.natural)
            tension = (
                NO_TENSION
                if len(self.system.membrane)
                else linear_tensions(q, dq, springs, self.system.stretch, lengths)
            )
            q, share = q + dq, share + ds
            balance = self._balance(start, share)
            trial, f = balance.residual(q)
            residual = balance.relative(trial, f)
            if residual <= self.drive.newton.tolerance and max(edge, turn) <= self.drive.newton.increment:
                solution = Solution(q, trial, f, True, residual, iteration)
                return self._point(balance, solution, share, *way)
            values, extra = balance.jacobian(q, trial, tension)
            back, along = self._solved(values, extra, -f), self._along(start, q, share, values, extra)
            if back is None or along is None:
                return None
            ds = -float(normal @ back) / (float(normal @ along) + across)
            dq = back + ds * along
        return None

    def _point(self, balance: Balance, solution: Solution, share: float, way: Floats, ds: float) -> _PathPoint | None:
        """Return an equilibrium as a point of a path that came that way; None where its tangent is not defined."""
        q, trial = solution.q, solution.trial
        along = self._along(balance.state, q, share, *balance.jacobian(q, trial))
        if along is None:
            return None
        onwards = 1.0 if way @ along + ds >= 0.0 else -1.0
        state = carry(balance.state, q, natural=balance.natural).changed(external=balance.external)
        mode, _ = falling_mode(balance, solution)
        if mode is not None:
            mode *= np.sign(mode[np.argmax(np.abs(mode[: self.system.turns]))])
        return _PathPoint(state, share, onwards * along, onwards, mode, solution.iterations)

    def _balance(self, state: RodState, share: float) -> Balance:
        """Return the balance at a share of the command, with frames carried from a state."""
        drive, start = replace(self.drive, share=share), self.drive.start
        natural = start.natural + share * (drive.natural(drive.command.time) - start.natural)
        load = start.external + share * (drive.load - start.external)
        return Balance(self.system, state, natural, load, 0.0, terms=drive.terms(state, 0.0, drive.command.time))

    def _solved(self, values: Floats, extra: Blocks | None, rhs: Floats) -> Floats | None:
        """Return K^-1 rhs of all degrees of freedom, zero where they are held; None where K is singular."""
        order, out = self.system.pattern.order, np.zeros(self.system.dofs)
        found, _ = self.system.pattern.solve(values, rhs[order], extra)
        if found is None:
            return None
        out[order] = found
        return out

    def _along(self, state: RodState, q: Floats, share: float, values: Floats, extra: Blocks | None) -> Floats | None:
        """Return what q changes by with the share along the path, supports led along; None where K is singular."""
        ends = []
        # the slope of the balance by the share: exact where loads and shapes change linearly
        for s in (share - DIFFERENCE_STEP_REL, share + DIFFERENCE_STEP_REL):
            moved = q.copy()
            moved[self.drive.dofs] = self.drive.aim(s)
            ends.append(self._balance(state, s).residual(moved)[1])
        along = self._solved(values, extra, (ends[0] - ends[1]) / (2.0 * DIFFERENCE_STEP_REL))
        if along is not None:
            along[self.drive.dofs] = self.drive.aim(1.0) - self.drive.aim(0.0)
        return along
