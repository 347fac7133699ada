"""Paths of equilibria: whether one lies on that of the one before, where a robot ends that snaps, the way through limit points.

Along a path of equilibria q(s) of the potential P(q, s), s the share of a command, dP/ds is the slope of P at q alone. With A and
B, the changes of P by a step in s at the q of its begin and end, and the work of the supports among them::

    P1 - P0 = (A + B) / 2 + D,          D = O(ds^3)    where |A - B| = O(ds^2)

A snap releases energy at one s: -D stays while |A - B| vanishes with the step. So a step with -D > |A - B| / 2 is taken again
in halves, down to `MIN_SNAP_SHARE`, and what is left then is a snap. It ends where the motion ends that begins at the equilibrium
before, by backward Euler in increments that grow until inertia takes no part. Contact, friction and cables are not judged; a weak
snap within one long command may look like a bend (of a shallow arch: where the load grows by half of its limit and more).

`equilibrium_path` follows a path f(q, s) = 0 through its limit points by its length, as [Riks 1979, Int. J. Solids Struct. 15]:
s is an unknown, too, and every point lies in the plane across the step that predicts it,

    K dq + ds df/ds = -f,        p . D (dq) = 0,

p the step along the tangent v = -K^-1 df/ds, D lengths over those of an edge and angles in radians.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.actuation import Actuation, CableLengths, CableTensions, NaturalShape
from geosim.arrays import Bools, Floats, Ints, number, whole
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.rods.balance import NO_TENSION, Balance, step_size
from geosim.rods.drive import Drive, make_drive
from geosim.rods.elastic import linear_tensions
from geosim.rods.increment import solve_balance
from geosim.rods.newton import IncrementNewton, Solution
from geosim.rods.robot import RodShellRobot
from geosim.rods.stability import falling_mode
from geosim.rods.state import RodState, at_rest, carry, evaluate
from geosim.rods.system import make_system

__all__ = ["MIN_SNAP_SHARE", "EquilibriumPath", "equilibrium_path", "released", "settled"]

MIN_SNAP_SHARE = 1.0 / 256.0  # of a command: a step in which nothing but a snap releases more than the loads do
PATH_ITERATIONS, EASY_PATH_ITERATIONS = (
    12,
    5,
)  # of Newton's method, after which a step is halved; up to which it grows by half


def released(before: RodState, after: RodState, f0: Floats, f1: Floats) -> float:
    """Return the energy [J] that a step released beyond what its loads explain; 0 where it is one of a path.

    `f0` and `f1` are the residuals of all degrees of freedom at both equilibria: what supports bear.
    """
    system = before.system
    e00 = evaluate(system, before, before.q, before.natural).energy
    e11 = evaluate(system, after, after.q, after.natural).energy
    e01 = evaluate(system, before, before.q, after.natural).energy
    e10 = evaluate(system, after, after.q, before.natural).energy
    load, dq = after.external - before.external, after.q - before.q
    held = np.where(system.free, 0.0, dq)
    first = e01 - e00 - float(load @ before.q) + float(f0 @ held)
    last = e11 - e10 - float(load @ after.q) + float(f1 @ held)
    change = e11 - e00 - float(after.external @ after.q) + float(before.external @ before.q)
    defect = 0.5 * (first + last) - change
    snap_energy_rounding = 1e-9  # of the elastic energy: less is rounding of its differences
    return defect if defect > 0.5 * abs(first - last) + snap_energy_rounding * max(e00, e11) else 0.0


def settled(drive: Drive, state: RodState, natural: Floats, load: Floats, time: float, dt: float) -> Solution | None:
    """Return the equilibrium in which a motion from rest at `state` ends, or None; supports stand where they stand then."""
    moving, h, size = replace(drive, static=False), dt, state.robot.size
    state = state.changed(u=np.zeros_like(state.q))
    settling_growth, max_settling_increments = 1.25, 200  # of increments on the way to rest: a factor 1e19 in all
    still_move_rel = 1e-7  # of the robot's size that an increment may move at the end
    for _ in range(max_settling_increments):
        q = state.q.copy()
        q[drive.dofs] = drive.aim(drive.share)
        state, solution, _ = solve_balance(moving, state, q, natural, load, h, time)
        if not solution.converged:
            h *= 0.25
            continue
        dq = solution.q - state.q
        state = carry(state, solution.q, natural=natural).changed(u=np.where(state.system.free, dq / h, 0.0))
        h *= settling_growth
        if abs(dq[: state.system.turns]).max() < still_move_rel * size and h > 100.0 * dt:
            return solve_balance(drive, state, state.q, natural, load, 0.0, time)[1]
    return None


@dataclass(frozen=True)
class EquilibriumPath:
    """Equilibria on the way to a command, in the order in which the path meets them.

    Parameters
    ----------
    shares
        Of the command (k,): 0 at rest, 1 where all of it acts; not monotonic where the path turns.
    frames
        Positions of the vertices [m], (k, n, 3).
    unstable
        Whether the energy falls along some mode there (k,).
    """

    shares: Floats
    frames: Floats
    unstable: Bools

    @property
    def limit_points(self) -> Ints:
        """Points at which the share turns, in order."""
        way = np.sign(np.diff(self.shares))
        return np.flatnonzero(way[1:] * way[:-1] < 0) + 1

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
    step: float = 0.05,
    points: int = 200,
    tolerance: float = 1e-8,
) -> EquilibriumPath:
    """Follow the equilibria from rest to the first command, through limit points, by the length of the path.

    Loads, supports and natural shapes grow together. Contact is not followed.

    Parameters
    ----------
    robot, actuation, environment
        As of `solve`; in an environment without obstacles.
    step
        The longest step: rotations of edges and theta [rad], of which the largest counts.
    points
        Equilibria at most; fewer where the whole command is reached.
    tolerance
        Of every equilibrium, over the largest internal force or moment.

    Raises
    ------
    InputError
        There are obstacles, or not even the first step has an equilibrium.
    """
    environment = environment or Environment()
    if environment.obstacles:
        raise InputError(
            "equilibrium_path: obstacles are not followed; leave them out, or use RodShellStepper(static=True)"
        )
    number(step, "equilibrium_path: step [rad]", above=0.0)
    whole(points, "equilibrium_path: points", least=1)
    command = actuation.commands((NaturalShape, CableTensions, CableLengths), "equilibrium_path")[0]
    system = make_system(robot, replace(environment, self_contact=False))
    drive = make_drive(at_rest(system, moving=False), command, static=True, newton=IncrementNewton(tolerance))
    walk = _Walk(drive)
    length, shares, frames, unstable = step, [0.0], [walk.state.positions.copy()], [False]
    min_path_step_share = 1e-4  # of the longest step: below it the path has ended
    while len(shares) <= points and shares[-1] < 1.0:
        if walk.advance(length):
            length = min(1.5 * length, step) if walk.iterations <= EASY_PATH_ITERATIONS else length
            shares.append(walk.share)
            frames.append(walk.state.positions.copy())
            unstable.append(walk.unstable)
        elif length > min_path_step_share * step:
            length *= 0.5
        elif len(shares) == 1:
            raise InputError(
                "equilibrium_path: no equilibrium near the rest shape; clamp the robot, or take smaller steps"
            )
        else:
            break
    return EquilibriumPath(np.array(shares), np.array(frames), np.array(unstable))


class _Walk:
    """The last point of a path, and the way in which it was reached."""

    def __init__(self, drive: Drive) -> None:
        self.drive, self.state, self.share = drive, drive.start, 0.0
        self.iterations, self.unstable = 0, False
        self._way = np.zeros_like(self.state.q)  # the last step
        system = self.state.system
        self._weights = np.ones(system.dofs)
        self._weights[: system.turns] = system.mean_length**-2

    def _balance(self, share: float) -> Balance:
        drive, start = replace(self.drive, share=share), self.drive.start
        natural = start.natural + share * (drive.natural(drive.command.time) - start.natural)
        terms = drive.terms(self.state, 0.0, drive.command.time)
        return Balance(start.system, self.state, natural, share * drive.load, 0.0, terms=terms)

    def _slope(self, q: Floats, share: float) -> Floats:
        """Derivative of the residual by the share, supports with it."""
        ends = []
        # of a command: for the slope of the balance by it, exact where loads and shapes change linearly
        share_difference = 1e-6
        for s in (share - share_difference, share + share_difference):
            moved = q.copy()
            moved[self.drive.dofs] = self.drive.aim(s)
            ends.append(self._balance(s).residual(moved)[1])
        return np.asarray((ends[1] - ends[0]) / (2.0 * share_difference))

    def advance(self, length: float) -> bool:
        """Go to the next point, at the end of a step of some length; return whether there is one."""
        system, order, weights = self.state.system, self.state.system.pattern.order, self._weights
        q, share, tension, plane = self.state.q, self.share, NO_TENSION, None
        balance = self._balance(share)
        trial, f = balance.residual(q)
        for self.iterations in range(PATH_ITERATIONS):
            values, extra = balance.jacobian(q, trial, tension)
            back, along = np.zeros((2, system.dofs))
            for out, rhs in ((back, -f), (along, -self._slope(q, share))):
                found, _ = system.pattern.solve(values, rhs[order], extra)
                if found is None:
                    return False
                out[order] = found
            along[self.drive.dofs] = self.drive.aim(1.0) - self.drive.aim(0.0)
            if plane is None:
                forward = -1.0 if (weights * self._way) @ along < 0.0 else 1.0
                edge, _, turn = step_size(along, system.stencils.springs, system.rest, system.turns)
                change = forward * length / max(edge, turn)
                plane, dq = weights * along, change * along
            else:
                change = -float(plane @ back) / float(plane @ along)
                dq = back + change * along
            edge, _, turn = step_size(dq, system.stencils.springs, system.rest, system.turns)
            if not max(edge, turn) < 1.0:
                return False
            if not len(system.membrane):
                rest = system.rest_lengths(balance.natural)
                tension = linear_tensions(q, dq, system.stencils.springs, system.stretch, rest)
            q, share = q + dq, share + change
            balance = self._balance(share)
            trial, f = balance.residual(q)
            residual = balance.relative(trial, f)
            if residual <= self.drive.newton.tolerance and max(edge, turn) <= self.drive.newton.increment:
                self._arrive(balance, q, share, Solution(q, trial, f, True, residual, self.iterations))
                return True
        return False

    def _arrive(self, balance: Balance, q: Floats, share: float, solution: Solution) -> None:
        self.unstable = falling_mode(balance, solution)[0] is not None
        self._way, self.share = q - self.state.q, share
        self.state = carry(self.state, q, natural=balance.natural).changed(u=np.zeros_like(q))
