"""Local refinement of tetrahedral meshes: marked edges are halved, longest first, and the mesh stays conforming.

A tet is cut in two through its longest marked edge and the opposite one, until no marked edge is left in it. On a face between
two tets both see the same marked edges in the same order, so they cut it alike; no further marks are needed for that. For the
shape of the tets a longest edge is marked wherever another one is [Rivara, 1984; Plaza and Carey, 2000].
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.geometry import topology


def bisected(vertices: Floats, tets: Ints, chosen: Ints) -> tuple[Floats, Ints, Ints, Ints]:
    """Halve all edges of chosen tets, and the longest of those that are cut besides.

    Parameters
    ----------
    vertices, tets
        Positions [m] (n, 3), ids (m, 4), positively oriented.
    chosen
        Tets whose edges are to be halved.

    Returns
    -------
    middles, edges, tets, parents
        The new vertices [m] (e, 3), numbered from n on; the edges that they halve (e, 2), sorted; the new tets, positively
        oriented; and the tet that each is a part of.
    """
    n = len(vertices)
    edges, ten = topology.mid_edges(tets, n)
    of_tet = ten[:, 4:] - n
    length = np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1)
    rank = np.empty(
        len(edges), dtype=np.int64
    )  # of equally long edges the one that comes first: the same from all sides
    rank[np.argsort(length, kind="stable")] = np.arange(len(edges))
    marked = np.zeros(len(edges), dtype=bool)
    marked[of_tet[chosen]] = True
    longest = np.take_along_axis(of_tet, np.argmax(rank[of_tet], axis=1)[:, None], axis=1)[:, 0]
    while not marked[longest[marked[of_tet].any(axis=1)]].all():
        marked[longest[marked[of_tet].any(axis=1)]] = True
    halved = np.flatnonzero(marked)
    span = n + len(edges)
    keys = edges[halved, 0] * span + edges[halved, 1]
    ranks = rank[halved]
    parents = np.arange(len(tets))
    while True:
        pairs = np.sort(tets[:, topology.TET_EDGES], axis=2)
        wanted = pairs[..., 0] * span + pairs[..., 1]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        here = np.where(keys[at] == wanted, ranks[at], -1)
        which = np.argmax(here, axis=1)
        cut = np.flatnonzero(here[np.arange(len(tets)), which] >= 0)
        if not len(cut):
            return vertices[edges[halved]].mean(axis=1), edges[halved], tets, parents
        ends = topology.TET_EDGES[which[cut]]
        middle = n + at[cut, which[cut]]
        halves = [tets[cut].copy(), tets[cut].copy()]
        for half, end in zip(halves, ends.T):
            half[np.arange(len(cut)), end] = middle
        tets = np.vstack([np.delete(tets, cut, axis=0), *halves])
        parents = np.concatenate([np.delete(parents, cut), parents[cut], parents[cut]])
