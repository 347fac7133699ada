"""Other tets in the place of flat ones: an edge or a face of a flat tet goes where the tets without it are rounder.

Edge removal [Freitag and Ollivier-Gooch 1997, Int. J. Numer. Methods Eng. 40]: the ring of tets round an edge becomes two fans
over a triangulation of the ring. A face between two tets becomes the edge between their tips. Walls keep their triangles.
"""

from __future__ import annotations

import itertools

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.geometry.polish import POOR_RADIUS_RATIO, radius_ratios

MAX_RING = 8  # tets round an edge that goes: the ring of more has hundreds of triangulations
GAIN = 1.1  # of the worst radius ratio
Tet = tuple[int, ...]
_Swap = tuple[set[int], list[list[Tet]]]  # tets that go, and lists of tets that may come


class _Stars:
    """Tets by the vertices that they have, as far as they are asked for; new ones follow the old."""

    def __init__(self, vertices: Floats, tets: Ints, regions: Ints) -> None:
        self.x, self.tets, self.regions = vertices, [tuple(t) for t in tets.tolist()], regions.tolist()
        self.order = np.argsort(tets.ravel(), kind="stable") // 4
        self.starts = np.searchsorted(np.sort(tets.ravel()), np.arange(len(vertices) + 1))
        self.known: dict[int, set[int]] = {}

    def of(self, vertex: int) -> set[int]:
        if vertex not in self.known:
            self.known[vertex] = set(self.order[self.starts[vertex] : self.starts[vertex + 1]].tolist())
        return self.known[vertex]

    def holding(self, *vertices: int) -> set[int]:
        return set.intersection(*(self.of(v) for v in vertices))

    def replace(self, old: set[int], new: list[Tet]) -> list[int]:
        """Put new tets in the place of old ones of the same region; return their numbers."""
        region = self.regions[next(iter(old))]
        for t in old:
            for v in self.tets[t]:
                self.of(v).discard(t)
            self.regions[t] = -1
        ids = list(range(len(self.tets), len(self.tets) + len(new)))
        for t, corners in zip(ids, new):
            for v in corners:
                self.of(v).add(t)
        self.tets += new
        self.regions += [region] * len(new)
        return ids

    def worst(self, tets: list[Tet]) -> float:
        return float(radius_ratios(self.x, np.array(tets)).min())


def swapped(vertices: Floats, tets: Ints, regions: Ints, bodies: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return tets (m, 4) and their regions (m,) with rounder tets in the place of flat ones of bodies."""
    counts = np.isin(regions, bodies)
    ratio = np.where(counts, radius_ratios(vertices, tets), 1.0)
    poor = np.argsort(ratio, kind="stable")[: int((ratio < POOR_RADIUS_RATIO).sum())]
    if len(poor) == 0:
        return tets, regions
    stars, waiting = _Stars(vertices, tets, regions), poor.tolist()
    while waiting:
        t = waiting.pop(0)
        if stars.regions[t] < 0:
            continue
        found = _better(stars, t)
        if found is not None:
            made = stars.replace(*found)
            waiting += [k for k in made if stars.worst([stars.tets[k]]) < POOR_RADIUS_RATIO]
    kept = np.array(stars.regions) >= 0
    kept[: len(regions)] |= regions < 0
    return np.ascontiguousarray(np.array(stars.tets)[kept]), np.array(stars.regions)[kept]


def _better(stars: _Stars, t: int) -> tuple[set[int], list[Tet]] | None:
    """Return the tets that go with an edge or a face of a tet, and those that come; None where none are rounder."""
    best: tuple[set[int], list[Tet]] | None = None
    corners = stars.tets[t]
    most = GAIN * stars.worst([corners])
    options = [_without_edge(stars, a, b) for a, b in itertools.combinations(corners, 2)]
    options += [_without_face(stars, t, tip) for tip in corners]
    for option in options:
        for new in option[1] if option else []:
            worst = stars.worst(new)
            if option is not None and worst > most and worst > GAIN * stars.worst([stars.tets[k] for k in option[0]]):
                best, most = (option[0], new), worst
    return best


def _without_edge(stars: _Stars, a: int, b: int) -> _Swap | None:
    """Return the ring of tets round an edge and what may stand for it: two fans over every fan of the ring."""
    ring = stars.holding(a, b)
    if not 3 <= len(ring) <= MAX_RING or len({stars.regions[t] for t in ring}) > 1:
        return None
    loop = _loop([stars.tets[t] for t in ring], a, b)
    if loop is None:
        return None
    out: list[list[Tet]] = []
    for k in range(len(loop)):
        turned = loop[k:] + loop[:k]
        fan = [(turned[0], turned[i], turned[i + 1]) for i in range(1, len(loop) - 1)]
        out.append([tet for p, q, r in fan for tet in ((a, p, q, r), (b, p, r, q))])
    return ring, out


def _loop(ring: list[Tet], a: int, b: int) -> list[int] | None:
    """Return the vertices round an edge, in order; None where its tets close no ring, as at an edge of a wall."""
    after: dict[int, int] = {}
    for tet in ring:
        p, q = (v for v in tet if v not in (a, b))
        p, q = (p, q) if _same_sense(tet, (a, b, p, q)) else (q, p)
        after[p] = q
    loop = [next(iter(after))]
    while len(loop) < len(ring) and loop[-1] in after:
        loop.append(after[loop[-1]])
    closed = len(set(loop)) == len(ring) and after.get(loop[-1]) == loop[0]
    return loop if closed else None


def _without_face(stars: _Stars, t: int, tip: int) -> _Swap | None:
    """Return the two tets at the face opposite to a tip, and the three round the edge between their tips."""
    p, q, r = (v for v in stars.tets[t] if v != tip)
    p, q = (p, q) if _same_sense(stars.tets[t], (tip, p, q, r)) else (q, p)
    pair = stars.holding(p, q, r)
    if len(pair) != 2 or len({stars.regions[k] for k in pair}) > 1:
        return None
    other = next(v for v in stars.tets[(pair - {t}).pop()] if v not in (p, q, r))
    if stars.holding(tip, other):
        return None
    return pair, [[(tip, other, p, q), (tip, other, q, r), (tip, other, r, p)]]


def _same_sense(given: Tet, wanted: Tet) -> bool:
    """Whether two orders of four corners have the same sense."""
    places = [given.index(v) for v in wanted]
    return sum(i > j for i, j in itertools.combinations(places, 2)) % 2 == 0
