"""Anderson acceleration of the local-global iteration x <- G(x) = x - A^-1 r(x) [Fang2022, III-B; Peng et al. 2018].

With the last steps f_j = G(x_j) - x_j the next point is the combination of the images G(x_j) whose step is smallest,

    x_new = G_k - sum_j theta_j (G_j+1 - G_j),   theta = argmin ||f_k - sum_j theta_j (f_j+1 - f_j)||_A.

The norm is that of the global matrix, ||f||_A^2 = f^T A f, which costs nothing because A f = -r is known. In the
plain norm of the positions the soft bending of a slender robot hides the stiff volume change of its elements, the
combination raises the merit, and every other proposal is rejected.

Whoever calls compares a merit at x_new and at x_k, and goes to G_k instead (which lowers the merit for certain) when
x_new does not improve.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from geosim.arrays import Floats

__all__ = ["Anderson"]

ANDERSON_REGULARISATION = (
    1e-10  # of the scaled normal equations: differences that nearly depend on each other get no weight
)


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
        self._past: list[tuple[Floats, Floats, Floats]] = []  # images, steps, forces

    def jump(self) -> None:
        """Forget the last point alone: the merit has changed a little since, and its difference to the next is no slope."""
        del self._past[-1:]

    def direction(self, x: Floats, force: Floats, solve: Callable[[Floats], Floats]) -> Floats:
        """Return the step [m] from x to the next point.

        Parameters
        ----------
        x, force
            Present point [m] and r = -A f [N], the gradient of the merit, of the same shape.
        solve
            Solves with the global matrix A.
        """
        step = -solve(force)
        self._past = [*self._past, ((x + step).ravel(), step.ravel(), -force.ravel())][-self.window - 1 :]
        if len(self._past) < 2:
            return step
        images, steps, forces = (np.array(kind) for kind in zip(*self._past))
        dr = np.diff(forces, axis=0)
        gram = np.diff(steps, axis=0) @ dr.T  # symmetric: dr = A df
        gram = 0.5 * (gram + gram.T)
        scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        normal = gram / np.outer(scale, scale) + ANDERSON_REGULARISATION * np.eye(len(gram))
        theta = np.linalg.solve(normal, (dr @ steps[-1]) / scale) / scale
        return step - (theta @ np.diff(images, axis=0)).reshape(x.shape)
