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

import numpy as np

from geosim.arrays import Floats

__all__ = ["Anderson"]


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
            del memory[:-self.window - 1]
        if len(self._images) < 2:
            return x + step
        df, dr = np.diff(np.array(self._steps), axis=0), np.diff(np.array(self._forces), axis=0)
        gram = df @ dr.T  # symmetric: dr = A df
        gram = 0.5 * (gram + gram.T)
        scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        normal = gram / np.outer(scale, scale) + 1e-10 * np.eye(len(gram))
        theta = np.linalg.solve(normal, (dr @ self._steps[-1]) / scale) / scale
        return x + step - (theta @ np.diff(np.array(self._images), axis=0)).reshape(x.shape)
