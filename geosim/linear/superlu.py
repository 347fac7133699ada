"""SuperLU of SciPy, which is always there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
from scipy.sparse import csc_matrix, csr_matrix

from geosim.arrays import Floats
from geosim.linear.factoriser import FactorisationError, Factoriser, OutOfMemoryError

# SuperLU leaves the diagonal where its entry is below this share of the largest in its column. Indefinite matrices ask for it;
# those of rods and shells, of friction and drag, are nearly definite.
INDEFINITE_PIVOT_SHARE, DEFINITE_PIVOT_SHARE = 0.01, 1e-3


class Superlu(Factoriser):
    """L U of the whole matrix, equilibrated, in double precision and one thread; its pivots are not counted."""

    name = "superlu"

    def __init__(self, indptr: np.ndarray, indices: np.ndarray) -> None:
        super().__init__(len(indptr) - 1)
        places = csr_matrix((np.arange(1.0, len(indices) + 1.0), indices, indptr), shape=(self.size, self.size))
        full = (places + scipy.sparse.triu(places, 1).T).tocsc()
        full.sort_indices()
        self._order = full.data.astype(np.int64) - 1
        self._pattern = full.indices, full.indptr
        self._factors: scipy.sparse.linalg.SuperLU | None = None

    def factorise(self, data: Floats) -> None:
        """Factorise (see `Factoriser`), after rows and columns have been equilibrated."""
        self.refuse_if_too_large()
        matrix = csc_matrix((data[self._order], *self._pattern), shape=(self.size, self.size))
        # symmetric equilibration: rows and columns to unit maximum
        scale, columns = np.ones(self.size), np.repeat(np.arange(self.size), np.diff(matrix.indptr))
        equilibrations = 3  # rounds of square roots after which rows have a maximum near one
        for _ in range(equilibrations):
            largest = abs(matrix.multiply(scale[:, None]).multiply(scale[None])).max(axis=0).toarray().ravel()
            if (largest == 0).any():
                raise FactorisationError("SuperLU could not factorise the matrix: it has an empty row")
            scale /= np.sqrt(largest)
        matrix.data = matrix.data * scale[matrix.indices] * scale[columns]
        self._facts = replace(self._facts, scale=scale)
        try:
            self._factors = scipy.sparse.linalg.splu(
                matrix,
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=INDEFINITE_PIVOT_SHARE,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            raise FactorisationError(f"SuperLU could not factorise the matrix: {error}") from None
        except MemoryError:
            raise OutOfMemoryError(self.size, self.memory) from None

    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""
        assert self._factors is not None
        return self.scaled(np.asarray(self._factors.solve(self.scaled(right))))
