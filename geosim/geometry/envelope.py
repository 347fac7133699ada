"""The last resort for surfaces that no repair makes sound: what they enclose, cut out of one mesh that follows them.

fTetWild [Hu, Schneider, Wang, Zorin and Panozzo 2020, ACM Trans. Graphics 39] fills the box round all surfaces with tets
whose faces follow every triangle within a distance eps, whatever the triangles do to each other. Winding numbers say of each
tet whether it is body, chamber or neither; the faces between such tets are closed surfaces that do not cross, of bodies and
chambers at once.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from geosim.collision.queries import closest_points
from geosim.collision.tree import build_tree
from geosim.errors import InputError, MeshError
from geosim.geometry import shells, topology
from geosim.geometry.child import Allowance, run_mesher
from geosim.geometry.holes import place
from geosim.geometry.polish import POOR_RADIUS_RATIO, radius_ratios
from geosim.geometry.surface import Surface, check_surface
from geosim.geometry.widths import unit_normals
from geosim.geometry.winding import Soup, soup

# eps, what the surfaces may move: at most the first of the diagonal of everything, at least the second; between them a share of
# the least wall, so that both of its sides may move and it stays.
MAX_ENVELOPE_REL, MIN_ENVELOPE_REL, ENVELOPE_WALLS = 1e-3, 2.5e-4, 0.2
MIN_WALL_ENVELOPES = 2.0  # a thinner wall may be none, since each side may move by eps
COARSE_EDGE_REL = 0.05  # tets' edge over the diagonal away from details
# Rounds that fTetWild takes at most, and the energy of the flattest tet at which it ends (3: regular). Of triangles that cross in
# many places some are left out at first, and each is a gap; as its tets become better they are tried again, in every third round.
# Tets whose walls are cut out may be flat, and become as few as can be: of 12 draws of two crossed blocks 12 were closed then,
# 7 otherwise. Those that stay have radius ratios of 0.08 to 0.3.
CLOSED, ROUND = (12, 1e6), (80, 10.0)
OUTSIDE_LABEL = -1


@dataclass(frozen=True)
class Enveloped:
    """Closed surfaces in the place of torn and crossing ones.

    `bodies`, `chambers`: surfaces that meet in equal triangles or not at all; `eps` [m]; `apart`: largest and mean distance [m]
    of the new surfaces from the old triangles, `at` [m] (3,) where it is largest; `volumes` [m^3] (k, 2) of every surface:
    enclosed by the old triangles by winding number, and by the new.
    """

    bodies: tuple[Surface, ...]
    chambers: tuple[Surface, ...]
    eps: float
    apart: tuple[float, float]
    at: np.ndarray
    volumes: np.ndarray


def is_available() -> bool:
    """Whether the mesher is installed (extra `rescue`)."""
    return importlib.util.find_spec("pytetwild") is not None


def least_wall(bodies: Sequence[Surface], chambers: Sequence[Surface]) -> tuple[float, np.ndarray]:
    """Thickness [m] of the least wall round chambers in triangles with any faults, and its place (3,); inf without a chamber.

    From the middles of triangles of the chambers outward to where winding numbers say that the bodies end, to a quarter; walls
    thicker than a tenth of the diagonal are not looked for.
    """
    # Triangles of chambers that walls are measured from, steps out of each, and the share of them that may be thinner
    # than the wall.
    wall_samples, wall_steps, wall_quantile = 300, 40, 0.02
    skins = [soup(s.vertices, s.faces) for s in bodies]
    diagonal = max(s.diagonal for s in bodies)
    steps = diagonal * np.geomspace(0.1 * MIN_ENVELOPE_REL, 0.1, wall_steps)
    walls, places = [np.inf], [np.zeros(3)]
    for chamber in chambers:
        turned = soup(chamber.vertices, chamber.faces)
        normal, area = unit_normals(turned.vertices, turned.faces)
        chosen = np.argsort(-area, kind="stable")[:wall_samples]
        centres = turned.vertices[turned.faces[chosen]].mean(axis=1)
        points = centres + steps[:, None, None] * normal[chosen]
        held = np.logical_or.reduce([s.holds(points.reshape(-1, 3)) for s in skins]).reshape(len(steps), -1)
        # Out of the body again after it: a cavity that the body's file has in other triangles leaves gaps beside the chamber's.
        beyond = np.logical_or.accumulate(held, axis=0) & ~held
        wall = np.where(beyond.any(axis=0), steps[np.argmax(beyond, axis=0)], np.inf)
        least = np.argsort(wall)[int(wall_quantile * len(wall))]
        walls.append(float(wall[least]))
        places.append(centres[least])
    thinnest = int(np.argmin(walls))
    return walls[thinnest], places[thinnest]


def envelope_width(bodies: Sequence[Surface], chambers: Sequence[Surface]) -> float:
    """How far surfaces with any faults may move [m]: a share of their least wall, within bounds by their size.

    Raises
    ------
    UndecidedError
        A wall is thinner than the least such distance can tell.
    """
    diagonal = _diagonal([*bodies, *chambers])
    wall, at = least_wall(bodies, chambers)
    least = MIN_ENVELOPE_REL * diagonal
    if least < wall < MIN_WALL_ENVELOPES * least:
        raise UndecidedError(
            f"{chambers[0].label}: the wall round it is {wall * 1e3:.2g} mm thick near {place(at)}, but surfaces are faulty by "
            f"{least * 1e3:.2g} mm; thicken it in the CAD program, or export again"
        )
    return float(np.clip(ENVELOPE_WALLS * wall, least, MAX_ENVELOPE_REL * diagonal))


def _diagonal(surfaces: Sequence[Surface]) -> float:
    corners = np.vstack([s.vertices[np.unique(s.faces)] for s in surfaces])
    return float(np.linalg.norm(np.ptp(corners, axis=0)))


def enveloped(bodies: Sequence[Surface], chambers: Sequence[Surface], eps: float, allowed: Allowance) -> Enveloped:
    """Replace surfaces by closed ones within eps of them.

    The order in which the mesher inserts triangles is drawn anew in every run and cannot be set, so that what fails once may
    succeed again.

    Parameters
    ----------
    bodies, chambers
        Surfaces with any faults.
    eps
        How far they may move [m].
    allowed
        What the mesher may take.

    Raises
    ------
    InputError
        A wall is thinner than eps can tell, a chamber is open to the outside by more than a tenth of its size, or nothing is
        enclosed; each with the place and what was measured. Or the mesher fails.
    """
    surfaces = [*bodies, *chambers]
    edge = COARSE_EDGE_REL * _diagonal(surfaces)
    soups, vertices, tets, region, before = _filled(surfaces, len(bodies), eps, edge, CLOSED, allowed)
    made = _cut_out(surfaces, soups, len(bodies), vertices, tets, region, before, eps)
    if made.apart[0] > eps:
        raise UndecidedError(
            f"{surfaces[0].label}: open near {place(made.at)}, where what would close it is {made.apart[0] * 1e3:.2g} mm from "
            f"every triangle (envelope {eps * 1e3:.2g} mm); close it in the CAD program"
        )
    return made


def tets_in_envelope(
    bodies: Sequence[Surface], chambers: Sequence[Surface], eps: float, edge: float, allowed: Allowance
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tets of an edge [m] whose walls lie within eps [m] of closed surfaces, most of them, however these touch.

    They fill space without gaps and overlaps, whatever the surfaces are, so that no other mesher has to take these walls.

    Returns
    -------
    vertices, tets, region
        Positions [m] (n, 3); ids (m, 4), positively oriented; the surface that each belongs to (m,), bodies first.

    Raises
    ------
    InputError
        As `enveloped`, but for gaps: closed surfaces have none.
    """
    surfaces = [*bodies, *chambers]
    soups, vertices, tets, region, _ = _filled(surfaces, len(bodies), eps, edge, ROUND, allowed)
    walls = np.unique(topology.walls(tets, region)[0])
    kept = region >= 0
    tets, region = np.ascontiguousarray(tets[kept]), region[kept]
    if turned := int((topology.tet_volumes(vertices, tets) <= 0.0).sum()):
        raise MeshError(f"{surfaces[0].label}: the envelope mesher turned {turned} tets over")
    return _on_planes(vertices, tets, walls, soups, eps), tets, region


def _on_planes(
    vertices: np.ndarray, tets: np.ndarray, walls: np.ndarray, soups: Sequence[Soup], eps: float
) -> np.ndarray:
    """Vertices [m] (n, 3), those of walls, ids (w,), where the planes of triangles near them meet, if tets stay round.

    Faces that are clamped, or cut by a plane of symmetry, are flat again.
    """
    # Of a direction, across those of other planes: less is none of its own. Radius ratios of tets may halve, or fall so far.
    least_across, least_ratio, least_ratio_rel = 0.2, POOR_RADIUS_RATIO, 0.5
    old, faces = shells.joined(soups)
    normals = unit_normals(old, faces)[0]
    ways = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=3)))
    probes = (vertices[walls][:, None] + eps * ways).reshape(-1, 3)
    near = closest_points(probes, old, build_tree(old, faces))[1].reshape(len(walls), -1)
    away = np.einsum("wki,wki->wk", normals[near], old[faces[near, 0]] - vertices[walls][:, None])
    moves, free = np.zeros((len(walls), 3)), np.tile(np.eye(3), (len(walls), 1, 1))
    for k in np.argsort(np.abs(away), axis=1, kind="stable").T:  # the planes that each lies on come first
        n, distance = (np.take_along_axis(of, k[:, None, None], 1)[:, 0] for of in (normals[near], away[:, :, None]))
        across = np.einsum("wij,wj->wi", free, n)
        square = np.einsum("wi,wi->w", across, across)[:, None]
        taken = (square > least_across**2) & (np.abs(distance) < 2.0 * eps)
        way = np.where(taken, across / np.maximum(square, least_across**2), 0.0)
        moves += (distance - np.einsum("wi,wi->w", n, moves)[:, None]) * way
        free -= across[:, :, None] * way[:, None]
    moves[np.linalg.norm(moves, axis=1) > 2.0 * eps] = 0.0
    least = np.minimum(least_ratio_rel * radius_ratios(vertices, tets), least_ratio)
    out = vertices.copy()
    out[walls] += moves
    while True:  # of each tet that would be worse, the vertex that moves farthest goes back
        worse = tets[radius_ratios(out, tets) < least]
        far = np.linalg.norm(out - vertices, axis=1)[worse]
        back = worse[np.arange(len(worse)), np.argmax(far, axis=1)][far.max(axis=1, initial=0.0) > 0.0]
        if len(back) == 0:
            return out
        out[back] = vertices[back]


def _filled(
    surfaces: Sequence[Surface], bodies: int, eps: float, edge: float, until: tuple[int, float], allowed: Allowance
) -> tuple[list[Soup], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Soups of surfaces, the vertices and tets of a box round them, the surface of each tet, and the surfaces' volumes."""
    soups = [soup(s.vertices, shells.drop_degenerate(s.faces, cancel=False)[0]) for s in surfaces]
    vertices, tets = _mesh(soups, eps, edge, until, allowed, surfaces[0].label)
    region, before = _regions(surfaces, soups, bodies, vertices, tets)
    thin = _contact(vertices, tets, region, bodies, len(surfaces))
    if thin is not None:
        _refuse(surfaces, *thin, eps)
    return soups, vertices, tets, region, before


class UndecidedError(InputError):
    """What no envelope can decide: a wall too thin, a chamber open to the outside, a gap that nothing closes."""


class OpenError(UndecidedError):
    """A chamber is open to the outside: no finer envelope closes it."""


def _mesh(
    soups: Sequence[Soup], eps: float, edge: float, until: tuple[int, float], allowed: Allowance, label: str
) -> tuple[np.ndarray, np.ndarray]:
    """Tets of positive sense that fill a box round soups: vertices [m] (n, 3), ids (m, 4)."""
    together, faces = shells.joined(soups)
    inputs = dict(
        engine="pytetwild",
        vertices=together,
        faces=faces,
        edge=min(edge, float(np.linalg.norm(np.ptp(together, axis=0)))),
        eps=eps / float(np.linalg.norm(np.ptp(together, axis=0))),
        rounds=until[0],
        energy=until[1],
        coarsen=until == CLOSED,
    )
    found = run_mesher(inputs, allowed, label)
    if isinstance(found, str):
        raise InputError(f"{label}: {found}; repair the surface in MeshLab or Blender and give that")
    # All have one sense. Those that rounding left without a volume stay, too: without them their faces bound a slit.
    vertices, tets = found["vertices"], found["tets"]
    turned = topology.tet_volumes(vertices, tets).sum() < 0.0
    return vertices, np.ascontiguousarray(tets[:, [0, 2, 1, 3]] if turned else tets)


def _regions(
    surfaces: Sequence[Surface], soups: Sequence[Soup], bodies: int, vertices: np.ndarray, tets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Surface that each tet belongs to, (m,), chambers first, then the smaller body, else -1; and volumes [m^3] (k,)."""
    centres = vertices[tets].mean(axis=1)
    volume = topology.tet_volumes(vertices, tets)
    inside = [s.holds(centres) for s in soups]
    region = np.full(len(tets), OUTSIDE_LABEL)
    order = sorted(range(bodies), key=lambda k: -volume[inside[k]].sum())
    for k in (*order, *range(bodies, len(soups))):
        region[inside[k]] = k
    region = _without_pockets(vertices, tets, volume, region, bodies)
    for k in range(len(soups)):
        if not (region == k).any():
            raise InputError(
                f"{surfaces[k].label}: its triangles enclose nothing, by their winding number; export a closed solid"
            )
    if bodies == 1:
        inside[0] = np.logical_or.reduce(inside)  # its surface is the skin, round chambers as well
    return _manifold(tets, volume, region), np.array([volume[i].sum() for i in inside])


def _without_pockets(
    vertices: np.ndarray, tets: np.ndarray, volume: np.ndarray, region: np.ndarray, bodies: int
) -> np.ndarray:
    """Give pieces too small to be parts to the region that they share most of their faces with."""
    # of the volume of a chamber: spaces so small between its wall and the body's are part of it
    crumb_volume_rel = 2e-2
    # of the volume of everything: pieces so small are rounding of the classification, not parts
    pocket_volume_rel = 1e-4
    region = region.copy()
    faces, first, beyond = topology.face_sides(tets)
    within = beyond >= 0
    inner, outer = first[within], beyond[within]
    areas = np.linalg.norm(topology.face_normals(vertices, faces[within]), axis=1)
    for _ in range(3):
        same = region[inner] == region[outer]
        piece = topology.linked(inner[same], outer[same], len(tets))
        size = np.bincount(piece, volume)
        kind = np.zeros(len(size), dtype=np.int64)
        kind[piece] = region
        open_piece = np.zeros(len(size), dtype=bool)
        open_piece[piece[first[~within]]] = True
        area = areas[~same]
        a, b = piece[inner[~same]], piece[outer[~same]]
        of_kind = {k: float(volume[region == k].sum()) for k in np.unique(region)}
        solid = sum(v for t, v in of_kind.items() if t >= 0)
        before = region.copy()
        for k in np.flatnonzero(~open_piece):
            touch = np.concatenate([kind[b[a == k]], kind[a[b == k]]])
            weight = np.concatenate([area[a == k], area[b == k]])
            if len(touch) == 0:
                continue
            chamber = touch.max()  # if it is one: labels of bodies are lower
            if kind[k] == OUTSIDE_LABEL and chamber >= bodies and size[k] < crumb_volume_rel * of_kind[chamber]:
                region[piece == k] = chamber
            elif size[k] < pocket_volume_rel * solid and size[k] < of_kind[kind[k]] * 0.5:
                kinds = np.unique(touch)
                region[piece == k] = kinds[np.argmax([weight[touch == t].sum() for t in kinds])]
        if np.array_equal(region, before):
            break
    return region


def _manifold(tets: np.ndarray, volume: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Give tets round edges where a region touches itself to the other side, the smallest piece, until none is left.

    Each such edge has two pieces of either side round it: more than one of them would move walls by the size of a tet.
    """
    max_removal_rounds = 10  # of removing edges and vertices where a surface touches itself
    region = region.copy()
    for _ in range(max_removal_rounds):
        clean = True
        for k in np.unique(region[region >= 0]):
            faces = topology.boundary_faces(tets[region == k])
            directed, ids, _ = shells.edges(faces)
            crowded = np.flatnonzero(np.bincount(ids) > 2)
            if len(crowded) == 0:
                continue
            clean = False
            ends = np.sort(directed[np.isin(ids, crowded)], axis=1)
            touched = np.flatnonzero(np.isin(tets, np.unique(ends)).sum(axis=1) >= 2)
            for a, b in np.unique(ends, axis=0):
                ring = touched[(tets[touched] == a).any(axis=1) & (tets[touched] == b).any(axis=1)]
                mine = region[ring] == k
                # neighbours in the ring share one of these
                beside = tets[ring][~np.isin(tets[ring], (a, b))].reshape(-1, 2)
                meet = (beside[:, None, :, None] == beside[None, :, None]).any(axis=(2, 3))
                left, right = np.nonzero(meet & (mine[:, None] == mine))
                piece = topology.linked(left, right, len(ring))
                sizes = np.bincount(piece, volume[ring])
                if len(sizes) < 4:  # another edge has mended this one
                    continue
                least = piece == np.argmin(sizes)
                others, counts = np.unique(region[ring[~mine]], return_counts=True)
                region[ring[least]] = others[np.argmax(counts)] if mine[least].all() else k
        if clean:
            break
    return region


def _contact(
    vertices: np.ndarray, tets: np.ndarray, region: np.ndarray, bodies: int, count: int
) -> tuple[int, int, np.ndarray, float] | None:
    """Where a chamber meets the outside or another chamber: both regions, a place (3,) and the width [m] of the contact."""
    faces, _, _, sides = topology.walls(tets, region)
    for k in range(bodies, count):
        for a, b in (sides.T, sides.T[::-1]):
            bare = (a == k) & ((b == OUTSIDE_LABEL) | ((b >= bodies) & (b != k)))
            if bare.any():
                points = vertices[np.unique(faces[bare])]
                other = int(b[bare][0])
                return k, other, points.mean(axis=0), float(np.linalg.norm(np.ptp(points, axis=0)))
        mine = np.unique(tets[region == k])
        others = np.unique(tets[(region == OUTSIDE_LABEL) | ((region >= bodies) & (region != k))])
        common = np.intersect1d(mine, others)
        if len(common):
            other = int(
                region[(tets == common[0]).any(axis=1) & (region != k) & ((region < 0) | (region >= bodies))][0]
            )
            return k, other, vertices[common[0]], 0.0
    return None


def _refuse(surfaces: Sequence[Surface], k: int, other: int, at: np.ndarray, width: float, eps: float) -> None:
    """Say what no envelope can decide."""
    max_opening_rel = 0.1  # size of an opening over that of its chamber: larger ones are a matter of design
    chamber, beyond = surfaces[k], "the outside" if other < 0 else surfaces[other].label
    size = chamber.diagonal
    if width > max_opening_rel * size:
        raise OpenError(
            f"{chamber.label}: open to {beyond} over {width * 1e3:.3g} mm near {place(at)}, over a tenth of its size "
            f'({size * 1e3:.3g} mm); add a wall in the CAD program, or set inlet = "close"'
        )
    near, point = surfaces[other] if other >= 0 else surfaces[0], at[None]
    points = [point := closest_points(point, s.vertices, build_tree(s.vertices, s.faces))[0] for s in (chamber, near)]
    wall = float(np.linalg.norm(points[0] - points[1]))
    if wall > MIN_WALL_ENVELOPES * eps:
        raise UndecidedError(
            f"{chamber.label}: open to {beyond} over {width * 1e3:.2g} mm near {place(at)} through a wall "
            f"{wall * 1e3:.2g} mm thick; close the gap in the CAD program, or export again"
        )
    raise UndecidedError(
        f"{chamber.label}: the wall to {beyond} is {wall * 1e3:.2g} mm thick near {place(at)}, but the surfaces are faulty by "
        f"{eps * 1e3:.2g} mm; thicken it in the CAD program, or export again"
    )


def _cut_out(
    surfaces: Sequence[Surface],
    soups: Sequence[Soup],
    bodies: int,
    vertices: np.ndarray,
    tets: np.ndarray,
    region: np.ndarray,
    before: np.ndarray,
    eps: float,
) -> Enveloped:
    """Surfaces of the regions, and how far they lie from those given."""
    old, faces = shells.joined(soups)
    tree = build_tree(old, faces)
    new, volumes, worst, mean = [], [], [], []
    for k, surface in enumerate(surfaces):
        mine = (region == k) | (region >= bodies) if bodies == 1 and k == 0 else region == k
        cut = Surface(
            *shells.compact(vertices, topology.boundary_faces(tets[mine])), name=surface.name, source=surface.source
        )
        cut = check_surface(cut, allow_any_size=True)
        points = np.concatenate([cut.vertices, cut.vertices[cut.faces].mean(axis=1)])
        apart = np.linalg.norm(points - closest_points(points, old, tree)[0], axis=1)
        worst.append((float(apart.max()), points[np.argmax(apart)]))
        mean.append(float(apart.mean()))
        volumes.append((float(before[k]), cut.volume))
        new.append(replace(cut, notices=(*surface.notices, _said(surface, worst[-1], mean[-1], volumes[-1], eps))))
    largest = max(worst, key=lambda item: item[0])
    return Enveloped(
        tuple(new[:bodies]), tuple(new[bodies:]), eps, (largest[0], float(np.mean(mean))), largest[1], np.array(volumes)
    )


def _said(
    surface: Surface, worst: tuple[float, np.ndarray], mean: float, volumes: tuple[float, float], eps: float
) -> str:
    return (
        f"{surface.label}: rescued by an envelope of {eps * 1e3:.2g} mm; the new surface lies within "
        f"{worst[0] * 1e3:.2g} mm of the old (mean {mean * 1e3:.2g} mm, farthest near {place(worst[1])}). The volume is "
        f"{volumes[1] * 1e9:.6g} mm^3 (before, by winding number, {volumes[0] * 1e9:.6g} mm^3)"
    )
