"""Repairs surfaces as they are found: gaps, stray triangles, inner walls, small holes, overlaps.

Each step mends one sort of fault, touches only the triangles at the fault, and says what it changed. What the steps cannot
mend is left to the check, which refuses it.

- Gaps: open edges that belong together are joined.
- Stray triangles and fins hang on the surface by one edge, or not at all; an inner wall lies inside the solid. They go.
- Small holes are closed by the triangles of least area (`geometry/holes.py`).
- Overlapping shells become one by a Boolean union.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.holes import border, closed, place
from geosim.geometry.imprint import as_manifold, of_manifold, snapped
from geosim.geometry.intersections import crossing_pairs
from geosim.geometry.simplify import deviation
from geosim.geometry.surface import MERGE_TOLERANCE, SLIVER_TOLERANCE, TOUCH_TOLERANCE, Surface
from geosim.geometry.topology import face_normals, linked
from geosim.geometry.winding import soup

__all__ = ["as_soup", "rescued"]

# Lengths relative to the diagonal of the bounding box, areas to the area of the surface.
# Open edges nearer than the first that joins most are joined: printers resolve the last.
JOIN_DISTANCES_REL = (1e-6, 1e-5, 1e-4, 1e-3)
STRAY_PIECE_AREA_REL = 1e-2  # area of a piece with an open border that is no part of the solid
SMALL_HOLE_DIAMETER_REL = 0.1  # diameter; larger holes are openings, and what closes them is a matter of design
HIDDEN_RIM_SHARE = 0.9  # of a rim inside other parts: whatever closes it there bounds nothing
COLLAPSED_EDGE_HEIGHTS = 10.0  # heights of a sliver: edges so short go where it cannot be flipped away


@dataclass
class _Patient:
    """A surface under repair, and what has been done to it."""

    name: str
    vertices: np.ndarray
    faces: np.ndarray
    diagonal: float
    notes: list[str] = field(default_factory=list)

    def put(self, vertices: np.ndarray, faces: np.ndarray, note: str) -> None:
        self.vertices, self.faces = vertices, faces
        self.notes.append(note)

    def crossings(self) -> np.ndarray:
        return crossing_pairs(self.vertices, self.faces, tolerance=TOUCH_TOLERANCE * self.diagonal)

    def volume(self, faces: np.ndarray) -> float:
        return shells.signed_volume(self.vertices, shells.orient(self.vertices, faces)[0])


def rescued(surface: Surface) -> Surface:
    """Repair a surface as far as it can be repaired.

    Parameters
    ----------
    surface
        Any surface, unchecked.

    Returns
    -------
    Surface
        With a notice that says what was changed [mm, mm^3] and how far the surfaces lie apart; the same one where nothing
        had to be done. `check_surface` decides whether it is sound.

    Raises
    ------
    InputError
        A hole is too large to be closed without knowing what it is.
    """
    diagonal = surface.diagonal
    vertices, faces, _ = shells.merge_vertices(surface.vertices, surface.faces, MERGE_TOLERANCE * diagonal)
    patient = _Patient(surface.label, *shells.compact(vertices, shells.drop_degenerate(faces)[0]), diagonal)
    _join_gaps(patient)
    _drop_strays(patient)
    _drop_inner_walls(patient)
    _close_holes(patient)
    if not _is_closed(patient.faces):
        return replace(surface, vertices=patient.vertices, faces=patient.faces)
    patient.faces, turned = shells.orient(patient.vertices, patient.faces)
    if turned >= 0:
        _flip_slivers(patient)
        _unite(patient)
        _drop_slivers(patient)
    if not patient.notes:
        return surface
    mended = replace(surface, vertices=patient.vertices, faces=patient.faces)
    apart, at = deviation(mended, surface, both=False)
    notice = (
        f"{surface.label}: rescued: {'; '.join(patient.notes)}. The new surface lies within {apart * 1e3:.2g} mm of the old "
        f"(farthest near {place(at)}), the volume is {mended.volume * 1e9:.6g} mm^3"
    )
    return replace(mended, notices=(*surface.notices, notice))


def as_soup(surface: Surface) -> tuple[Surface, int]:
    """Mend what is plain to see, gaps, stray triangles and small holes, and leave the rest to winding numbers.

    Returns
    -------
    surface, lids
        Any triangles, the last `lids` of them over holes.

    Raises
    ------
    InputError
        A hole is too large to be closed without knowing what it is, and does not lie inside another part.
    """
    diagonal = surface.diagonal
    vertices, faces, _ = shells.merge_vertices(surface.vertices, surface.faces, MERGE_TOLERANCE * diagonal)
    patient = _Patient(
        surface.label, *shells.compact(vertices, shells.drop_degenerate(faces, cancel=False)[0]), diagonal
    )
    _join_gaps(patient)
    _drop_strays(patient)
    before = len(patient.faces)
    found = closed(
        patient.name,
        patient.vertices,
        patient.faces,
        diagonal,
        SMALL_HOLE_DIAMETER_REL * diagonal,
        lambda loop: _is_hidden(patient, loop),
    )
    if found is not None and found[1]:
        note = f"{len(found[1])} holes closed, up to {max(found[1]) * 1e3:.3g} mm across"
        patient.put(patient.vertices, found[0], note)
    notes = (f"{surface.label}: {'; '.join(patient.notes)}",) if patient.notes else ()
    mended = replace(surface, vertices=patient.vertices, faces=patient.faces, notices=(*surface.notices, *notes))
    return mended, len(patient.faces) - before


def _is_hidden(patient: _Patient, loop: list[int]) -> bool:
    """Whether a loop of vertices lies inside what the other parts enclose."""
    touch = np.repeat(patient.faces[:, :1], 2, axis=1), patient.faces[:, 1:]
    part = linked(touch[0].ravel(), touch[1].ravel(), len(patient.vertices))
    others = patient.faces[part[patient.faces[:, 0]] != part[loop[0]]]
    return (
        len(others) > 3
        and float(soup(patient.vertices, others).holds(patient.vertices[loop]).mean()) > HIDDEN_RIM_SHARE
    )


def _is_closed(faces: np.ndarray) -> bool:
    return len(faces) >= 4 and bool(np.all(shells.edge_counts(faces) == 2))


def _join_gaps(patient: _Patient) -> None:
    """Join vertices of open edges; of several distances the least that leaves the fewest edges open."""
    opened = border(patient.faces)
    best, chosen, width = len(opened), None, 0.0
    for gap in JOIN_DISTANCES_REL if best else ():
        joined = np.arange(len(patient.vertices))
        joined[opened] = shells.merge_vertices(patient.vertices, opened, gap * patient.diagonal)[1]
        faces = shells.drop_degenerate(joined[patient.faces])[0]
        if len(faces) and (left := len(border(faces))) < best:
            best, chosen, width = left, faces, gap * patient.diagonal
    if chosen is not None:
        note = f"{len(opened) - best} open edges joined, moved by at most {width * 1e3:.2g} mm"
        patient.put(patient.vertices, chosen, note)


def _pieces(faces: np.ndarray) -> np.ndarray:
    """Number of the piece of every triangle; pieces are joined over edges of two triangles."""
    _, ids, face = shells.edges(faces)
    order = np.argsort(ids, kind="stable")
    start = np.flatnonzero(np.diff(ids[order], prepend=-1))
    pairs = start[np.bincount(ids)[ids[order[start]]] == 2]
    return linked(face[order[pairs]], face[order[pairs + 1]], len(faces))


def _drop_strays(patient: _Patient) -> None:
    """Drop small pieces with an open border that hang on nothing, or on edges that are closed without them."""
    dropped, area = 0, 0.0
    while True:
        faces = patient.faces
        size = 0.5 * np.linalg.norm(face_normals(patient.vertices, faces), axis=1)
        piece = _pieces(faces)
        count = np.bincount(shells.edges(faces)[1])[shells.edges(faces)[1]].reshape(3, -1)
        of_piece = np.bincount(piece, size)
        is_open = np.bincount(piece, (count == 1).any(axis=0)) > 0
        stray = is_open & (of_piece <= STRAY_PIECE_AREA_REL * size.sum())
        if not stray.any() or stray.all():
            break
        kept = ~stray[piece]
        dropped, area = dropped + int((~kept).sum()), area + float(size[~kept].sum())
        patient.faces = faces[kept]
    if dropped:
        patient.put(patient.vertices, patient.faces, f"{dropped} stray triangles of {area * 1e6:.3g} mm^2 removed")


def _drop_inner_walls(patient: _Patient) -> None:
    """Drop pieces between crowded edges that lie inside what the others enclose."""
    while len(patient.faces) and shells.edge_counts(patient.faces).max() > 2:
        piece = _pieces(patient.faces)
        for k in np.argsort(np.bincount(piece)):
            rest, wall = patient.faces[piece != k], patient.faces[piece == k]
            if not _is_closed(rest):
                continue
            rest, turned = shells.orient(patient.vertices, rest)
            middle = patient.vertices[wall[0]].mean(axis=0)
            if turned >= 0 and shells.winding_numbers(middle[None], patient.vertices, rest)[0] > 0.5:
                patient.put(patient.vertices, rest, f"an inner wall of {len(wall)} triangles removed")
                break
        else:
            return


def _close_holes(patient: _Patient) -> None:
    """Close every small hole; refuse a large one."""
    found = closed(
        patient.name, patient.vertices, patient.faces, patient.diagonal, SMALL_HOLE_DIAMETER_REL * patient.diagonal
    )
    if found is None:
        return
    faces, widths, area = found
    if widths:
        old = len(patient.faces)
        pairs = crossing_pairs(patient.vertices, faces, tolerance=TOUCH_TOLERANCE * patient.diagonal)
        flat = (
            shells.heights(patient.vertices, faces) < SLIVER_TOLERANCE * patient.diagonal
        )  # slits: flipped away later
        pairs = pairs[(pairs[:, 1] >= old) & ~flat[pairs].any(axis=1)]
        if len(pairs):
            raise InputError(
                f"{patient.name}: open, {len(widths)} holes; what would close the one near "
                f"{place(patient.vertices[faces[pairs[0, 1]]].mean(axis=0))} crosses the surface elsewhere; join its rim to "
                "the rim beside it, or cap it, in the CAD program"
            )
        note = f"{len(widths)} holes closed, up to {max(widths) * 1e3:.3g} mm across, {area * 1e6:.3g} mm^2 together"
        patient.put(patient.vertices, faces, note)


def _flip_slivers(patient: _Patient) -> None:
    """Flip flat triangles away, such as close slits, before they are taken for crossing ones."""
    flipped = shells.flip_slivers(patient.vertices, patient.faces, SLIVER_TOLERANCE * patient.diagonal)[0]
    if _is_closed(flipped):
        patient.faces = flipped


def _unite(patient: _Patient) -> None:
    """Make one shell of overlapping ones; they bound solids if an even number of others is round them, else cavities."""
    shell = shells.shell_ids(patient.faces)
    count = int(shell.max()) + 1
    pairs = shell[patient.crossings()]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    if len(pairs) == 0:
        return
    cluster = linked(pairs[:, 0], pairs[:, 1], count)
    before, parts = patient.volume(patient.faces), []
    for k in np.unique(cluster):
        members = np.flatnonzero(cluster == k)
        others = patient.faces[~np.isin(shell, members)]
        faces = [patient.faces[shell == m] for m in members]
        if len(members) == 1:
            parts.append((patient.vertices, faces[0]))
            continue
        outward = [f if shells.signed_volume(patient.vertices, f) > 0 else f[:, ::-1] for f in faces]
        place = snapped(patient.vertices, MERGE_TOLERANCE * patient.diagonal)
        solid = as_manifold(place, outward[0])
        for other in outward[1:]:
            solid = solid + as_manifold(place, other)
        vertices, merged = of_manifold(solid, patient.diagonal)
        inside = len(others) and shells.winding_numbers(vertices[merged[0, :1]], patient.vertices, others)[0] > 0.5
        parts.append((vertices, merged[:, ::-1] if inside else merged))
    starts = np.cumsum([0, *(len(v) for v, _ in parts)])
    vertices, joined = np.vstack([v for v, _ in parts]), np.vstack([f + s for (_, f), s in zip(parts, starts)])
    change = shells.signed_volume(vertices, joined) - before
    patient.put(
        *shells.compact(vertices, joined), f"{count} shells united where they overlap, {change * 1e9:+.3g} mm^3"
    )


def _drop_slivers(patient: _Patient) -> None:
    """Collapse short edges where flat triangles cannot be flipped away."""
    tolerance = SLIVER_TOLERANCE * patient.diagonal
    if shells.flip_slivers(patient.vertices, patient.faces, tolerance)[2]:
        solid = as_manifold(patient.vertices, patient.faces).simplify(COLLAPSED_EDGE_HEIGHTS * tolerance)
        vertices, faces = of_manifold(solid, patient.diagonal)
        welded, joined, _ = shells.merge_vertices(
            vertices, faces, tolerance
        )  # edges that manifold3d keeps for the shape
        joined = shells.drop_degenerate(joined)[0]
        if _is_closed(joined):
            vertices, faces = shells.compact(welded, joined)
        patient.put(vertices, faces, "short edges round flat triangles collapsed")
