"""Rules of time stepping: each increment h minimises w / 2 (x - y) . M (x - y) + potential(x), and x says where the body goes.

The rules differ in w, in y and in what x is:

    implicit Euler      w = 1 / h^2,    y = x0 + h v0,        x = x1,           v1 = (x1 - x0) / h
    implicit midpoint   w = 4 / h^2,    y = x0 + h v0 / 2,    x = (x0 + x1) / 2,    v1 = 2 (x1 - x0) / h - v0
    generalised alpha   forces balance at x1 with the acceleration q1, and with the averages
                        (1 - m) a1 + m a0 = (1 - f) q1 + f q0,
                        x1 = x0 + h v0 + h^2 ((1/2 - b) a0 + b a1),    v1 = v0 + h ((1 - g) a0 + g a1)

The generalised-alpha rule in this form holds constraints (incompressibility, prescribed volumes) at x1 and is of second order
in their pressures, too [Arnold, Bruels 2007, Convergence of the generalized-alpha scheme for constrained mechanical systems].

Mass-proportional damping d adds d v M to the forces that balance, with v = s (x - z): it joins w and y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Motion:
    """Velocities, averaged accelerations a and accelerations q of the nodes, (nodes, 3) each, in units of length."""

    velocity: Floats
    average: Floats
    acceleration: Floats


@dataclass(frozen=True)
class Increment:
    """An increment of time as a minimisation.

    Parameters
    ----------
    length
        h [s].
    share
        Of the increment at whose end forces balance.
    weight, center
        w [1/s^2] and y (nodes, 3), with damping.
    rate, lag
        v = rate (x - lag) is the velocity where forces balance: s [1/s], z (nodes, 3).
    guess
        Where the nodes are without forces (nodes, 3).
    end
        Returns positions and motion at the end of the increment, from those at which forces balance.
    """

    length: float
    share: float
    weight: float
    center: Floats
    rate: float
    lag: Floats
    guess: Floats
    end: Callable[[Floats], tuple[Floats, Motion]]

    def damped(self, damping: float) -> Increment:
        """Return the increment with mass-proportional damping [1/s]."""
        if damping == 0.0:
            return self
        drag = damping * self.rate
        weight = self.weight + drag
        return replace(self, weight=weight, center=(self.weight * self.center + drag * self.lag) / weight)


def _euler(x: Floats, m: Motion, h: float, radius: float) -> Increment:
    ahead = x + h * m.velocity

    def end(new: Floats) -> tuple[Floats, Motion]:
        v = (new - x) / h
        a = (v - m.velocity) / h
        return new, Motion(v, a, a)

    return Increment(h, 1.0, 1.0 / h**2, ahead, 1.0 / h, x, ahead, end)


def _midpoint(x: Floats, m: Motion, h: float, radius: float) -> Increment:
    ahead = x + 0.5 * h * m.velocity

    def end(middle: Floats) -> tuple[Floats, Motion]:
        v = 4.0 / h * (middle - x) - m.velocity
        a = (v - m.velocity) / h
        return 2.0 * middle - x, Motion(v, a, a)

    return Increment(h, 0.5, 4.0 / h**2, ahead, 2.0 / h, x, ahead, end)


def _generalized_alpha(x: Floats, m: Motion, h: float, radius: float) -> Increment:
    inertia, force = (2.0 * radius - 1.0) / (radius + 1.0), radius / (radius + 1.0)
    g, b = 0.5 - inertia + force, 0.25 * (1.0 - inertia + force) ** 2
    ahead = x + h * m.velocity + h**2 * (0.5 - b) * m.average
    weight = (1.0 - inertia) / ((1.0 - force) * b * h**2)
    before = (inertia * m.average - force * m.acceleration) / (1.0 - force)
    rate = g / (b * h)
    lag = ahead - (m.velocity + h * (1.0 - g) * m.average) / rate

    def end(new: Floats) -> tuple[Floats, Motion]:
        a = (new - ahead) / (b * h**2)
        v = m.velocity + h * ((1.0 - g) * m.average + g * a)
        return new, Motion(v, a, weight * (new - ahead) + before)

    guess = x + h * m.velocity + 0.5 * h**2 * m.average
    return Increment(h, 1.0, weight, ahead - before / weight, rate, lag, guess, end)


RULES: dict[str, Callable[[Floats, Motion, float, float], Increment]] = {
    "implicit-euler": _euler,
    "implicit-midpoint": _midpoint,
    "generalized-alpha": _generalized_alpha,
}


def led(motion: Motion, way: Floats, h: float, held: Bools) -> Motion:
    """Return the motion with the mean velocity of the increment where something leads the nodes, bool (nodes, 3)."""
    return replace(motion, velocity=np.where(held, way / h, motion.velocity))


def carried(mass: Any, x: Floats, settled: Floats, velocity: Floats, groups: Sequence[Ints]) -> Floats:
    """Return velocities with which rigid groups, once they are rigid again, keep both momenta of the body.

    The end of a midpoint step stretches what turns, by (turn)^2 / 8: settled without a new velocity, it would lose spin. Every
    group gets the rigid velocities v + w x (x - c) about its mean c for which P = sum m u and L = sum x x m u of the body stay:
    the laws of Newton and Euler, six linear equations for v and w.
    """
    x, velocity = x.copy(), velocity.copy()

    def momenta(v: Floats) -> Floats:
        pushes = mass @ v
        return np.concatenate([pushes.sum(axis=0), np.cross(x, pushes).sum(axis=0)])

    for nodes in groups:
        kept = momenta(velocity)
        x[nodes], velocity[nodes] = settled[nodes], 0.0
        ways = np.zeros((6, *x.shape))
        for i, axis in enumerate(np.eye(3)):
            ways[i, nodes], ways[3 + i, nodes] = axis, np.cross(axis, x[nodes] - x[nodes].mean(axis=0))
        rates = np.linalg.solve(np.stack([momenta(way) for way in ways], axis=1), kept - momenta(velocity))
        velocity += np.einsum("k,kni->ni", rates, ways)
    return velocity
