"""Repairs surfaces as they are found, where that takes seconds: gaps, stray triangles, small holes, inner walls, overlaps.

Each step mends one sort of fault, touches only the triangles at the fault, and says what it changed. An envelope mesh
(`geometry/envelope.py`) would serve most of them, too, in 20 to 90 s of processor time instead of less than one, and moves the
surface by up to a thousandth of its size; what the steps cannot mend is left to it, or to the check, which refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.holes import border, closed, place
from geosim.geometry.imprint import as_manifold, of_manifold, snapped
from geosim.geometry.intersections import crossing_pairs, deviation
from geosim.geometry.surface import SLIVER_TOLERANCE, TOUCH_TOLERANCE, Surface
from geosim.geometry.topology import face_normals, linked


@dataclass
class _Patient:
    """A surface under repair, how many triangles at its end are lids of holes, and what has been done to it."""

    surface: Surface
    vertices: np.ndarray
    faces: np.ndarray
    lids: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def diagonal(self) -> float:
        return self.surface.diagonal

    def put(self, vertices: np.ndarray, faces: np.ndarray, note: str) -> None:
        self.vertices, self.faces = vertices, faces
        self.notes.append(note)

    def crossings(self) -> np.ndarray:
        return crossing_pairs(self.vertices, self.faces, tolerance=TOUCH_TOLERANCE * self.diagonal)


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
        A hole is too large to be closed without knowing what it is, or what would close it crosses the surface.
    """
    patient = _closed_up(surface)
    _refuse_crossing_lids(patient)
    _drop_inner_walls(patient)
    if not _is_closed(patient.faces):
        return replace(surface, vertices=patient.vertices, faces=patient.faces)
    patient.faces, turned = shells.orient(patient.vertices, patient.faces)
    if turned >= 0:
        _unite(patient)
    if not patient.notes:
        return surface
    mended = replace(surface, vertices=patient.vertices, faces=patient.faces)
    apart, at = deviation(mended, surface, both=False)
    notice = (
        f"{surface.label}: rescued: {'; '.join(patient.notes)}. The new surface lies within {apart * 1e3:.2g} mm of the old "
        f"(farthest near {place(at)}), the volume is {mended.volume * 1e9:.6g} mm^3"
    )
    return replace(mended, notices=(*surface.notices, notice))


def as_soup(surface: Surface) -> Surface:
    """Mend what is plain to see, gaps, stray triangles and small holes, and leave the rest to winding numbers.

    Raises
    ------
    InputError
        A hole is too large to be closed without knowing what it is.
    """
    patient = _closed_up(surface)
    notes = (f"{surface.label}: {'; '.join(patient.notes)}",) if patient.notes else ()
    return replace(surface, vertices=patient.vertices, faces=patient.faces, notices=(*surface.notices, *notes))


def _closed_up(surface: Surface) -> _Patient:
    """Join gaps, drop stray triangles, close small holes.

    Of triangles that are there twice one stays, whatever their sense: where both sides of a wall went, the solids are one, and
    the wall between them goes as an inner one; where a triangle was doubled and turned, there would be a hole.
    """
    vertices, faces, _ = shells.merge_vertices(
        surface.vertices, surface.faces, shells.MERGE_TOLERANCE * surface.diagonal
    )
    once = shells.drop_degenerate(faces, cancel=False)[0]
    patient = _Patient(surface, *shells.compact(vertices, once))
    if opposed := len(once) - len(shells.drop_degenerate(faces)[0]):
        patient.notes.append(f"{opposed} triangles that were there in both senses kept once")
    _join_gaps(patient)
    _drop_strays(patient)
    old = len(patient.faces)
    faces, widths, area = closed(surface.label, patient.vertices, patient.faces, surface.diagonal)
    if widths:
        holes = "1 hole" if len(widths) == 1 else f"{len(widths)} holes"
        note = f"{holes} closed, up to {max(widths) * 1e3:.3g} mm across, {area * 1e6:.3g} mm^2 together"
        patient.put(patient.vertices, faces, note)
        patient.lids = len(faces) - old
    return patient


def _is_closed(faces: np.ndarray) -> bool:
    return len(faces) >= 4 and bool(np.all(shells.edge_counts(faces) == 2))


def _join_gaps(patient: _Patient) -> None:
    """Join vertices of open edges: halves that were exported apart, seams of two roundings.

    Of several distances the least that leaves the fewest edges open; printers resolve the last.
    """
    distances = (1e-6, 1e-5, 1e-4, 1e-3)  # of the diagonal
    opened = border(patient.faces)
    best, chosen, width = len(opened), None, 0.0
    for gap in distances if best else ():
        joined = np.arange(len(patient.vertices))
        joined[opened] = shells.merge_vertices(patient.vertices, opened, gap * patient.diagonal)[1]
        faces = shells.drop_degenerate(joined[patient.faces])[0]
        if len(faces) and (left := len(border(faces))) < best:
            best, chosen, width = left, faces, gap * patient.diagonal
    if chosen is not None:
        note = f"{len(opened) - best} open edges joined, moved by at most {width * 1e3:.2g} mm"
        patient.put(patient.vertices, chosen, note)


def _drop_strays(patient: _Patient) -> None:
    """Drop small pieces with an open border that hang on nothing, as scans have them, or on closed edges, as fins do."""
    most = 1e-2  # of the area of everything: a larger piece with an open border is a part of the solid with a hole
    dropped, area = 0, 0.0
    while True:
        faces = patient.faces
        size = 0.5 * np.linalg.norm(face_normals(patient.vertices, faces), axis=1)
        piece = shells.patches(faces)[0]
        count = np.bincount(shells.edges(faces)[1])[shells.edges(faces)[1]].reshape(3, -1)
        of_piece = np.bincount(piece, size)
        is_open = np.bincount(piece, (count == 1).any(axis=0)) > 0
        stray = is_open & (of_piece <= most * size.sum())
        if not stray.any() or stray.all():
            break
        kept = ~stray[piece]
        dropped, area = dropped + int((~kept).sum()), area + float(size[~kept].sum())
        patient.faces = faces[kept]
    if dropped:
        patient.put(patient.vertices, patient.faces, f"{dropped} stray triangles of {area * 1e6:.3g} mm^2 removed")


def _drop_inner_walls(patient: _Patient) -> None:
    """Drop pieces between crowded edges that lie inside what the others enclose, as CAD programs leave partitions in solids."""
    while len(patient.faces) and shells.edge_counts(patient.faces).max() > 2:
        piece = shells.patches(patient.faces)[0]
        for k in np.argsort(np.bincount(piece)):
            rest, wall = patient.faces[piece != k], patient.faces[piece == k]
            if not _is_closed(rest):
                continue
            rest, turned = shells.orient(patient.vertices, rest)
            middle = patient.vertices[wall[0]].mean(axis=0)
            if turned >= 0 and shells.encloses(patient.vertices, rest, middle):
                patient.put(patient.vertices, rest, f"an inner wall of {len(wall)} triangles removed")
                break
        else:
            return


def _refuse_crossing_lids(patient: _Patient) -> None:
    """Refuse lids through the surface: nested tubes whose rims belong together."""
    if not patient.lids:
        return
    # slits are closed by flat triangles, which the check flips away
    flat = shells.heights(patient.vertices, patient.faces) < SLIVER_TOLERANCE * patient.diagonal
    pairs = patient.crossings()
    pairs = pairs[(pairs[:, 1] >= len(patient.faces) - patient.lids) & ~flat[pairs].any(axis=1)]
    if len(pairs):
        raise InputError(
            f"{patient.surface.label}: open; a patch of the hole near "
            f"{place(patient.vertices[patient.faces[pairs[0, 1]]].mean(axis=0))} crosses the surface elsewhere; join its rim to "
            "the neighbouring rim or cap it in CAD"
        )


def _unite(patient: _Patient) -> None:
    """Make one shell of overlapping ones; they bound solids if an even number of others is round them, else cavities."""
    shell = shells.shell_ids(patient.faces)
    count = int(shell.max()) + 1
    pairs = shell[patient.crossings()]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    if len(pairs) == 0:
        return
    cluster = linked(pairs[:, 0], pairs[:, 1], count)
    before, parts = shells.signed_volume(patient.vertices, patient.faces), []
    for k in np.unique(cluster):
        members = np.flatnonzero(cluster == k)
        others = patient.faces[~np.isin(shell, members)]
        faces = [patient.faces[shell == m] for m in members]
        if len(members) == 1:
            parts.append((patient.vertices, faces[0]))
            continue
        outward = [f if shells.signed_volume(patient.vertices, f) > 0 else f[:, ::-1] for f in faces]
        place = snapped(patient.vertices, shells.MERGE_TOLERANCE * patient.diagonal)
        solid = as_manifold(place, outward[0])
        for other in outward[1:]:
            solid = solid + as_manifold(place, other)
        vertices, merged = of_manifold(solid, patient.diagonal)
        inside = len(others) and shells.encloses(patient.vertices, others, vertices[merged[0, 0]])
        parts.append((vertices, merged[:, ::-1] if inside else merged))
    starts = np.cumsum([0, *(len(v) for v, _ in parts)])
    vertices, joined = np.vstack([v for v, _ in parts]), np.vstack([f + s for (_, f), s in zip(parts, starts)])
    change = shells.signed_volume(vertices, joined) - before
    patient.put(
        *shells.compact(vertices, joined), f"{count} shells united where they overlap, {change * 1e9:+.3g} mm^3"
    )
