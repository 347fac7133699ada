"""Values on some vertices of a tetrahedral mesh, carried on to the others harmonically (graph Laplacian)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import splu

from geosim.arrays import Floats, Ints
from geosim.geometry import topology


def harmonic(tets: Ints, values: Floats, known: Ints) -> Floats:
    """Return values (n, ...) in which every vertex of the tets that is not `known` has the mean of its neighbours."""
    n = len(values)
    pairs = tets[:, topology.TET_EDGES].reshape(-1, 2)
    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
    graph = ((graph + graph.T) > 0).astype(float)
    degree = np.asarray(graph.sum(axis=1)).ravel()
    free, out = np.setdiff1d(np.flatnonzero(degree), known), values.copy()
    if len(free):
        rows = (diags(degree) - graph).tocsr()[free]
        out[free] = splu(rows[:, free].tocsc()).solve(-(rows[:, known] @ values[known]))
    return out
