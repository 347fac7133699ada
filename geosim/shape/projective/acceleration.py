"""Anderson acceleration of the local-global iteration x <- G(x) = x - A^-1 r(x) [Fang2022, III-B; Peng et al. 2018].

With the last steps f_j = G(x_j) - x_j the next point is the combination of the images G(x_j) whose step is smallest,

    x_new = G_k - sum_j theta_j (G_j+1 - G_j),   theta = argmin ||f_k - sum_j theta_j (f_j+1 - f_j)||_A.

The norm is that of the global matrix, ||f||_A^2 = f^T A f, which costs nothing because A f = -r is known. In the
plain norm of the positions the soft bending of a slender robot hides the stiff volume change of its elements, the
combination raises the merit, and every other proposal is rejected.

Whoever calls compares a merit at x_new and at x_k, and goes to G_k instead (which lowers the merit for certain) when
x_new does not improve.

`QuasiNewton` uses the same memory differently [Liu, Bouaziz and Kavan 2017]: L-BFGS, whose first guess of the inverse
Hessian is the solve with the global matrix. Anderson's truncated memory loses what the steps before it had learned, and on
slender robots falls back to the speed of the plain iteration; the secant pairs of L-BFGS keep the directions conjugate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from geosim.arrays import Floats

__all__ = ["Anderson", "QuasiNewton"]


class Anderson:
    """The memory of an accelerated iteration.

    Parameters
    ----------
    window
        Number of differences kept (5 or 6 is usual); 0 gives the plain iteration.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.restart()

    def restart(self) -> None:
        """Forget everything: the map has changed, or the last combination was rejected."""
        self._images: list[Floats] = []
        self._steps: list[Floats] = []
        self._forces: list[Floats] = []

    def jump(self) -> None:
        """Forget the last point alone: the merit has changed a little since, and its difference to the next is no slope."""
        for memory in (self._images, self._steps, self._forces):
            del memory[-1:]

    def propose(self, x: Floats, step: Floats, force: Floats) -> Floats:
        """Return the next point.

        Parameters
        ----------
        x
            Present point [m], any shape.
        step
            f = G(x) - x [m], the same shape.
        force
            r = -A f [N], the gradient of the merit, the same shape.
        """
        if self.window == 0:
            return x + step
        self._images.append((x + step).ravel())
        self._steps.append(step.ravel())
        self._forces.append(-force.ravel())
        for memory in (self._images, self._steps, self._forces):
            del memory[: -self.window - 1]
        if len(self._images) < 2:
            return x + step
        df, dr = np.diff(np.array(self._steps), axis=0), np.diff(np.array(self._forces), axis=0)
        gram = df @ dr.T  # symmetric: dr = A df
        gram = 0.5 * (gram + gram.T)
        scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        normal = gram / np.outer(scale, scale) + 1e-10 * np.eye(len(gram))
        theta = np.linalg.solve(normal, (dr @ self._steps[-1]) / scale) / scale
        return x + step - (theta @ np.diff(np.array(self._images), axis=0)).reshape(x.shape)


class QuasiNewton:
    """The memory of an iteration accelerated by L-BFGS.

    Parameters
    ----------
    window
        Number of secant pairs kept; 0 gives the plain iteration.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.restart()

    def restart(self) -> None:
        """Forget everything: the merit or the global matrix has changed."""
        self._moves: list[Floats] = []
        self._changes: list[Floats] = []
        self._last: tuple[Floats, Floats] | None = None

    def jump(self) -> None:
        """Forget the last point alone: the merit has changed a little since, and its difference to the next is no slope."""
        self._last = None

    def direction(self, x: Floats, force: Floats, solve: Callable[[Floats], Floats]) -> Floats:
        """Return the step [m] from x, a descent direction of the merit.

        Parameters
        ----------
        x, force
            Present point [m] and gradient of the merit [N], of the same shape.
        solve
            Solves with the global matrix.
        """
        if self._last is not None:
            move, change = (x - self._last[0]).ravel(), (force - self._last[1]).ravel()
            # curvature must be positive for a descent direction
            if move @ change > 1e-12 * np.sqrt((move @ move) * (change @ change)):
                self._moves.append(move)
                self._changes.append(change)
        for memory in (self._moves, self._changes):
            del memory[: max(0, len(memory) - self.window)]
        self._last = (x.copy(), force.copy())
        q, shares = force.ravel().copy(), []
        for move, change in zip(reversed(self._moves), reversed(self._changes)):
            share = (move @ q) / (move @ change)
            q -= share * change
            shares.append(share)
        step = solve(q.reshape(force.shape)).ravel()
        for move, change, share in zip(self._moves, self._changes, reversed(shares)):
            step += (share - (change @ step) / (move @ change)) * move
        return -step.reshape(force.shape)
