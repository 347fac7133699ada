"""Input of the mesher: all surfaces as one set of triangles, a seed point for every region, the holes.

Bodies and chambers are solids whose shells point out of them. A solid inside another one takes its volume from it. A
body may already contain the cavity of a chamber as an inner shell: where an inner shell coincides with a chamber's
shell, the chamber's triangles stand for both. An inner shell that belongs to no chamber is a sealed void.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.holes import place
from geosim.geometry.imprint import conforming
from geosim.geometry.intersections import crossing_pairs, farthest_from
from geosim.geometry.surface import Surface

# Distance over the diagonal of a cavity, and relative volume, of an inner shell and a chamber that are one. A round cavity
# exported twice, with 20 and 40 segments a turn, differs by half as much; no wall to speak of fits in between.
SAME_CAVITY_DISTANCE_REL, SAME_CAVITY_VOLUME_REL = 1e-2, 2e-2


@dataclass(frozen=True)
class Domain:
    """A set of triangles that meet only in common edges, with what lies between them.

    vertices [m] (n, 3), faces (m, 3); seeds [m] (s, 3) with the region of each; holes [m] (h, 3); `volumes` [m^3] by
    region; `names` by region; `solids`: region and outward triangles of every solid, the smallest first;
    `body_regions` and `chamber_regions` in the order given; notices.
    """

    vertices: np.ndarray
    faces: np.ndarray
    seeds: np.ndarray
    seed_regions: np.ndarray
    holes: np.ndarray
    volumes: dict[int, float]
    names: dict[int, str]
    solids: tuple[tuple[int, np.ndarray], ...]
    body_regions: tuple[int, ...]
    chamber_regions: tuple[int, ...]
    notices: tuple[str, ...]


@dataclass
class _Solid:
    """One body or chamber while the domain is built: its triangles in the common numbering, without dropped shells."""

    surface: Surface
    region: int
    is_body: bool
    faces: np.ndarray
    shell: np.ndarray
    depth: np.ndarray
    volume: float = 0.0


def build_domain(bodies: Sequence[Surface], chambers: Sequence[Surface]) -> Domain:
    """Put checked surfaces together.

    Regions: 0 is the first body, 1..k are the chambers, k+1.. the further bodies.

    Raises
    ------
    InputError
        If a chamber is outside the body, crosses or touches its skin or another chamber, or bodies overlap.
    """
    # Relative to the diagonal: a wall thinner than this is no wall.
    wall_tolerance = 1e-6
    k = len(chambers)
    regions = [0, *range(k + 1, k + len(bodies)), *range(1, k + 1)]
    surfaces: Sequence[Surface] = [*bodies, *chambers]
    if len(bodies) > 1:
        diagonal = float(np.linalg.norm(np.ptp(np.vstack([s.vertices for s in surfaces]), axis=0)))
        surfaces = conforming(surfaces, wall_tolerance * diagonal)
    vertices, solids = _solids(surfaces, regions, len(bodies))
    diagonal = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    _refuse_same(solids)
    islands = [(s, s.faces[s.shell == i]) for s in solids if s.is_body for i in np.flatnonzero(s.depth == 2)]
    recognised = _drop_cut_cavities(vertices, solids)
    faces, owner = _distinct(solids)
    _refuse_contacts(vertices, faces, owner, solids, wall_tolerance * diagonal)
    for solid in solids:
        solid.volume = shells.signed_volume(vertices, solid.faces) if len(solid.faces) else 0.0
    _refuse_islands(vertices, faces, solids, islands)
    seeds, seed_regions = _seeds(vertices, faces, solids)
    volumes = _nest(vertices, solids, seeds, seed_regions)
    holes, notices = _voids(vertices, faces, solids)
    used = np.unique(faces)
    vertices, faces = shells.compact(vertices, faces)
    ordered = tuple((s.region, np.searchsorted(used, s.faces)) for s in sorted(solids, key=lambda s: s.volume))
    return Domain(
        vertices,
        faces,
        seeds,
        seed_regions,
        holes,
        volumes,
        names={s.region: s.surface.label for s in solids},
        solids=ordered,
        body_regions=tuple(regions[: len(bodies)]),
        chamber_regions=tuple(regions[len(bodies) :]),
        notices=tuple(n for s in surfaces for n in s.notices) + recognised + notices,
    )


def _solids(surfaces: Sequence[Surface], regions: Sequence[int], bodies: int) -> tuple[np.ndarray, list[_Solid]]:
    """Common vertices [m] (n, 3) of surfaces, the bodies first, and the solids that they bound."""
    vertices, stacked = shells.joined(surfaces)
    diagonal = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    vertices, stacked, _ = shells.merge_vertices(vertices, stacked, shells.MERGE_TOLERANCE * diagonal)
    parts = np.split(stacked, np.cumsum([len(s.faces) for s in surfaces])[:-1])
    solids = []
    for i, (surface, part) in enumerate(zip(surfaces, parts)):
        faces = np.ascontiguousarray(part)
        shell = shells.shell_ids(faces)
        depth = shells.nesting(vertices, faces, shell)
        solids.append(_Solid(surface, regions[i], i < bodies, faces, shell, depth))
    return vertices, solids


def cavities(bodies: Sequence[Surface]) -> tuple[Surface, ...]:
    """Return the inner shells of checked bodies as surfaces of chambers, in the order of their places along x, y, z.

    An inner shell that another body fills is no cavity.

    Raises
    ------
    InputError
        The bodies have none, or another body lies in one and leaves a part of it open.
    """
    found = []
    middles = [shells.inner_point(body.vertices, body.faces, body.faces) for body in bodies]
    for body in bodies:
        shell = shells.shell_ids(body.faces)
        depth = shells.nesting(body.vertices, body.faces, shell)
        for i in np.flatnonzero(depth % 2 == 1):
            cavity = Surface(*shells.compact(body.vertices, body.faces[shell == i][:, ::-1]), source=body.source)
            held = [
                o
                for o, x in zip(bodies, middles)
                if o is not body and shells.encloses(cavity.vertices, cavity.faces, x)
            ]
            if not held:
                found.append(cavity)
            elif abs(sum(other.volume for other in held) - cavity.volume) > SAME_CAVITY_VOLUME_REL * cavity.volume:
                raise InputError(
                    f'{held[0].label}: chambers = "cavities", but it fills a part of a cavity of {body.label}; give the '
                    "surfaces of the chambers"
                )
    if not found:
        raise InputError(
            f'{bodies[0].label}: chambers = "cavities", but it encloses no cavity (no inner shell); close an open '
            "inlet in the CAD program, or give the surfaces of the chambers"
        )
    size = float(np.linalg.norm(np.ptp(np.vstack([body.vertices for body in bodies]), axis=0)))
    order = place_order([s.vertices for s in found], size)
    return tuple(replace(found[i], name=f"chamber {k + 1}") for k, i in enumerate(order))


def place_order(parts: Sequence[np.ndarray], size: float) -> np.ndarray:
    """Order of sets of points [m] (n, 3) by the middles of their boxes along x, then y, then z.

    Middles that differ by less than a hundredth of the size [m] are level, so that rounding does not decide.
    """
    middles = np.array([0.5 * (points.min(axis=0) + points.max(axis=0)) for points in parts])
    return np.lexsort(np.rint(middles / (0.01 * size)).T[::-1])


def _drop_cut_cavities(vertices: np.ndarray, solids: list[_Solid]) -> tuple[str, ...]:
    """Drop shells of bodies that coincide with a shell of a chamber; say so where they are not the same triangles."""
    cavities = [(s, s.faces[s.shell == i]) for s in solids if not s.is_body for i in range(len(s.depth))]
    notices = []
    for solid in solids:
        if not solid.is_body or len(solid.depth) == 1:
            continue
        keep = np.ones(len(solid.depth), dtype=bool)
        for i in np.flatnonzero(solid.depth % 2 == 1):
            shell = solid.faces[solid.shell == i]
            for chamber, cavity in cavities:
                apart = _apart(vertices, shell, cavity)
                if apart is None:
                    continue
                keep[i] = False
                if apart > 0.0:
                    notices.append(
                        f"{solid.surface.label}: its inner shell of {_size(vertices, shell) * 1e9:.6g} mm^3 is the cavity of "
                        f"{chamber.surface.label} ({_size(vertices, cavity) * 1e9:.6g} mm^3, within {apart * 1e3:.2g} mm), "
                        "whose triangles stand for both"
                    )
                break
        kept = keep[solid.shell]
        renumber = np.cumsum(keep) - 1
        solid.faces, solid.shell = np.ascontiguousarray(solid.faces[kept]), renumber[solid.shell[kept]]
        solid.depth = solid.depth[keep]
    return tuple(notices)


def _size(vertices: np.ndarray, shell: np.ndarray) -> float:
    return abs(shells.signed_volume(vertices, shell))


def _apart(vertices: np.ndarray, first: np.ndarray, second: np.ndarray) -> float | None:
    """Largest distance [m] of two closed shells that are one cavity, however each is triangulated; None if they are not."""
    ids, others = np.unique(first), np.unique(second)
    if np.array_equal(ids, others):
        return 0.0
    a, b = vertices[ids], vertices[others]
    near = SAME_CAVITY_DISTANCE_REL * float(np.linalg.norm(np.ptp(b, axis=0)))
    if np.abs([a.min(axis=0) - b.min(axis=0), a.max(axis=0) - b.max(axis=0)]).max() > near:
        return None
    if abs(_size(vertices, first) - _size(vertices, second)) > SAME_CAVITY_VOLUME_REL * _size(vertices, second):
        return None
    apart = max(farthest_from(a, vertices, second)[0], farthest_from(b, vertices, first)[0])
    return apart if apart <= near else None


def _distinct(solids: list[_Solid]) -> tuple[np.ndarray, np.ndarray]:
    """All triangles once, with the solid that owns each (walls of touching bodies have equal triangles)."""
    faces = np.vstack([s.faces for s in solids])
    owner = np.repeat(np.arange(len(solids)), [len(s.faces) for s in solids])
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    first.sort()
    return np.ascontiguousarray(faces[first]), owner[first]


def _refuse_contacts(
    vertices: np.ndarray, faces: np.ndarray, owner: np.ndarray, solids: list[_Solid], tolerance: float
) -> None:
    """Refuse chambers that meet the skin or each other, and bodies that meet other than in equal triangles."""
    used = [np.unique(s.faces) for s in solids]
    pairs = crossing_pairs(vertices, faces, tolerance=-1.0, group=owner, group_tolerance=tolerance)
    met = {tuple(sorted(p)): i for i, p in reversed(list(enumerate(owner[pairs].tolist())))}
    assembled = sum(s.is_body for s in solids) > 1
    for (i, a), (j, b) in itertools.combinations(enumerate(solids), 2):
        common = np.intersect1d(used[i], used[j])
        # Bodies may share a wall of equal triangles, and a chamber may lie between two bodies.
        shares = len(common) > 0 and not b.is_body and not (a.is_body and assembled)
        if (i, j) in met:
            raise _contact(a, b, vertices[faces[pairs[met[i, j], 0]]].mean(axis=0))
        if shares:
            raise _contact(a, b, vertices[common[0]])


def _contact(a: _Solid, b: _Solid, point: np.ndarray) -> InputError:
    """What to say of two solids that meet at a point [m]."""
    near = f"near {place(point)}"
    if b.is_body:
        return InputError(
            f"{b.surface.label}: crosses or touches {a.surface.label} {near}; bodies may "
            "touch but not overlap: cut one from the other in the CAD program, or unite them"
        )
    if a.is_body:
        return InputError(
            f"{b.surface.label}: crosses or touches the skin of {a.surface.label} {near}; leave "
            "a wall around the chamber (close an air inlet that runs through the wall)"
        )
    return InputError(
        f"{b.surface.label}: overlaps or touches {a.surface.label} {near}; leave a wall between "
        "the chambers, or unite them to one chamber"
    )


def _refuse_same(solids: list[_Solid]) -> None:
    """Refuse a chamber that is the surface of a body, and a body that is there already: the same file given twice."""
    triangles = [np.unique(np.sort(s.faces, axis=1), axis=0) for s in solids]
    for i, (b, again) in enumerate(zip(solids, triangles)):
        for a, before in zip(solids[:i], triangles[:i]):
            if a.is_body == b.is_body and np.array_equal(before, again):
                kind = "body" if a.is_body else "chamber"
                raise InputError(
                    f"{b.surface.label}: is the same surface as {a.surface.label}; give each {kind} once: two solids cannot fill "
                    "one place"
                )
    for b, of_chamber in zip(solids, triangles):
        for a, of_body in zip(solids, triangles):
            if a.is_body and not b.is_body and np.array_equal(of_body, of_chamber):
                raise InputError(
                    f"{b.surface.label}: is the same surface as {a.surface.label}; the body is the outer skin, "
                    "a chamber the wall of its cavity"
                )


def _refuse_islands(
    vertices: np.ndarray, faces: np.ndarray, solids: list[_Solid], islands: list[tuple[_Solid, np.ndarray]]
) -> None:
    """Refuse parts of a body that float in the air of a chamber: nothing holds them."""
    for solid, shell in islands:
        point = shells.inner_point(vertices, shell, faces)
        around = [s for s in solids if s is not solid and shells.encloses(vertices, s.faces, point)]
        nearest = min(around, key=lambda s: s.volume, default=None)
        if nearest is not None and not nearest.is_body:
            raise InputError(
                f"{solid.surface.label}: a solid island of {_size(vertices, shell) * 1e9:.4g} mm^3 near {place(point)} floats "
                f"in {nearest.surface.label}; remove it or join it to the body in the CAD program"
            )


def _seeds(vertices: np.ndarray, faces: np.ndarray, solids: list[_Solid]) -> tuple[np.ndarray, np.ndarray]:
    """A point inside every solid shell, and inside every island of a chamber."""
    seeds, regions = [], []
    for solid in solids:
        for i, depth in enumerate(solid.depth):
            shell = solid.faces[solid.shell == i]
            if depth % 2 == 0:
                seeds.append(shells.inner_point(vertices, shell, faces))
                regions.append(solid.region)
            elif not solid.is_body:
                point = shells.inner_point(vertices, np.ascontiguousarray(shell[:, ::-1]), faces)
                around = [s for s in solids if s.is_body and shells.encloses(vertices, s.faces, point)]
                if around:
                    seeds.append(point)
                    regions.append(min(around, key=lambda s: s.volume).region)
    return np.array(seeds).reshape(-1, 3), np.array(regions, dtype=np.int64)


def _nest(vertices: np.ndarray, solids: list[_Solid], seeds: np.ndarray, regions: np.ndarray) -> dict[int, float]:
    """Volume of every region: its solid's less those of the solids directly inside; refuse misplaced solids."""
    volumes = {s.region: s.volume for s in solids}
    assembled = sum(s.is_body for s in solids) > 1
    for solid in solids:
        points = [x for x in seeds[regions == solid.region] if shells.encloses(vertices, solid.faces, x)]
        parents, larger = set(), [s for s in solids if s.volume > solid.volume]
        for point in points:
            around = [s for s in larger if shells.encloses(vertices, s.faces, point)]
            _refuse_misplaced(solid, around, point, assembled)
            parents.add(min(around, key=lambda s: s.volume).region if around else -1)
        if len(parents) > 1:
            raise InputError(f"{solid.surface.label}: its parts lie in different bodies; give separate surfaces")
        if parents and (parent := parents.pop()) >= 0:
            volumes[parent] -= solid.volume
    return volumes


def _refuse_misplaced(solid: _Solid, around: list[_Solid], point: np.ndarray, assembled: bool) -> None:
    """Refuse what lies inside a chamber, and a chamber outside the only body; the solids around a point of it are given."""
    chamber = next((s for s in around if not s.is_body), None)
    if chamber is not None:
        remedy = "leave a wall between them, or leave one of the two out"
        if solid.is_body and not assembled:
            remedy = "the two are swapped: give the outer skin as the body, the wall of its cavity as the chamber"
        raise InputError(f"{solid.surface.label}: lies inside {chamber.surface.label}; {remedy}")
    if not around and not solid.is_body and not assembled:
        raise InputError(
            f"{solid.surface.label}: lies outside the body, e.g. at {place(point)}; check its position and that both surfaces "
            "have the same unit and origin"
        )


def _voids(vertices: np.ndarray, faces: np.ndarray, solids: list[_Solid]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Points in the inner shells of bodies that no other solid fills."""
    holes, notices = [], []
    for solid in solids:
        for i in np.flatnonzero(solid.depth % 2 == 1):
            if not solid.is_body:
                continue
            shell = np.ascontiguousarray(solid.faces[solid.shell == i][:, ::-1])
            point = shells.inner_point(vertices, shell, faces)
            if any(shells.encloses(vertices, s.faces, point) for s in solids if s is not solid):
                continue
            holes.append(point)
            volume = shells.signed_volume(vertices, shell) * 1e6
            notices.append(
                f"{solid.surface.label}: a sealed void of {volume:.4g} cm^3 is kept as a hole; to inflate it, give its "
                'surface as a chamber or set chambers = "cavities"'
            )
    return np.array(holes).reshape(-1, 3), tuple(notices)
