"""Mesh generation: surfaces, or tets with cavities, to one checked mesh with chambers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints, choice, det, norm, number
from geosim.collision.queries import vertices_in_tets
from geosim.collision.tree import build_tree
from geosim.errors import InputError, MeshError
from geosim.geometry import shells, topology
from geosim.geometry.bores import LEAST_CAVITY_REL, bores, plugged
from geosim.geometry.child import RESCUE_ADVICE, Allowance
from geosim.geometry.domain import cavities, place_order
from geosim.geometry.envelope import OpenError, UndecidedError, envelope_width, enveloped, is_available
from geosim.geometry.halves import mesh_halves, plane_of_symmetry
from geosim.geometry.holes import place
from geosim.geometry.inlets import capped, outer
from geosim.geometry.mesh import TetMesh, fill, mesh_surfaces
from geosim.geometry.remedies import REMEDIES_SECONDS, mesh_remeshed
from geosim.geometry.rescue import as_soup, rescued
from geosim.geometry.surface import MIN_PLAUSIBLE_SIZE_M, PartsError, Surface, check_size, check_surface, read_surface
from geosim.geometry.winding import soup

CAVITIES = "cavities"  # in the place of chambers: every cavity that the bodies enclose
# Of the processor time of a rescue, what an envelope leaves for what follows: cutting out, checks and tets (measured: 3 to 15 s).
AFTER_ENVELOPE_CPU_SECONDS = 15.0


def mesh_given(
    bodies: Sequence[Any],
    chambers: Sequence[Any] | str,
    *,
    units: str | None,
    allow_any_size: bool,
    rescue: bool,
    inlet: str | None,
    inlet_depth: float,
    time_limit: float,
    **options: Any,
) -> TetMesh:
    """Read, check and mesh surfaces; the arguments are as in `VolumetricRobot.from_surfaces`, `options` what `_meshed` takes.

    Raises
    ------
    InputError
        A surface cannot be read or is unsound, or the mesher fails.
    """
    given = _read(bodies, chambers, units, allow_any_size)
    allowed = Allowance.of(time_limit, REMEDIES_SECONDS if rescue else np.inf)
    depth = None
    if inlet is not None and choice(inlet, "inlet", ["close"]):
        depth = number(inlet_depth, "inlet_depth [m]", low=0.0)
    mesh = _mesh_read(given, allowed, allow_any_size, rescue, depth, options)
    parts = zip((*mesh.body_regions, *mesh.chamber_regions), (*given[0], *(given[1] or ())))
    return replace(mesh, names={region: surface.part for region, surface in parts if surface.part})


def _mesh_read(
    given: tuple[list[Surface], list[Surface] | None],
    allowed: Allowance,
    allow_any_size: bool,
    rescue: bool,
    depth: float | None,
    options: dict[str, Any],
) -> TetMesh:
    """Check and mesh surfaces; with a depth [m] inlets are closed so deep."""
    try:
        skins, inside = _checked(*given, allow_any_size, rescue)
        if depth is not None:
            skins, inside = _closed(skins, inside, depth)
        elif inside is None:
            inside = _cavities(skins)
        if rescue and given[1] is None:
            _refuse_invented(inside, skins, given[0])
        with _naming_cavities(skins, inside):
            return _meshed(skins, inside, allowed=allowed, **options)
    except PartsError:
        raise
    except InputError as error:
        if not rescue or not is_available():
            raise
        first = error
    return _meshed_in_envelope(given, allowed, options, first)


def _meshed_in_envelope(
    given: tuple[list[Surface], list[Surface] | None], allowed: Allowance, options: dict[str, Any], first: InputError
) -> TetMesh:
    """Mesh envelopes of surfaces that are unsound, with the first error that refused them."""
    # Shares of the envelope that are tried in turn: the mesher draws its own random numbers. The tets of an attempt may
    # take a quarter of what is left for all.
    envelope_attempts = (1.0, 0.75, 0.5)
    try:
        soups = [as_soup(s) for s in (*given[0], *(given[1] or ()))]
    except InputError:
        raise first from None
    skins, hollows = soups[: len(given[0])], soups[len(given[0]) :]
    eps = envelope_width(skins, hollows)
    for share in envelope_attempts:
        try:
            made = enveloped(
                skins,
                hollows,
                share * eps,
                replace(allowed, rescue_until=allowed.rescue_until - AFTER_ENVELOPE_CPU_SECONDS),
            )
            hollow = made.chambers
            if given[1] is None:
                hollow = cavities(made.bodies)
                _refuse_invented(hollow, made.bodies, skins)
            return _meshed(made.bodies, hollow, allowed=allowed.part(0.25), **options)
        except OpenError:
            raise
        except UndecidedError as error:
            first = error
        except InputError:
            continue  # of the envelope's own surfaces: what is wrong with those given has been said
    if isinstance(first, UndecidedError):
        raise first
    raise type(first)(f"{first}; no envelope of up to {eps * 1e3:.2g} mm round its triangles became a robot either")


@contextmanager
def _naming_cavities(skins: Sequence[Surface], inside: Sequence[Surface]) -> Iterator[None]:
    """Name the body's inner shells where the chambers given do not fit but as many shells of their volumes would."""
    same_cavity = 0.05  # of the volume: a chamber and the inner shell that it is meant to be
    try:
        yield
    except MeshError:
        raise
    except InputError as error:
        try:
            found = cavities(skins)
        except InputError:
            raise error from None
        same = zip(sorted(s.volume for s in found), sorted(s.volume for s in inside))
        if len(found) != len(inside) or any(abs(a - b) > same_cavity * b for a, b in same):
            raise
        raise InputError(
            f'{error}; or give chambers = "{CAVITIES}": the body holds {len(found)} inner shells of these volumes'
        ) from None


def _read(
    bodies: Sequence[Any], chambers: Sequence[Any] | str, units: str | None, allow_any_size: bool
) -> tuple[list[Surface], list[Surface] | None]:
    """Surfaces of the bodies and of the chambers [m]; None for every cavity of the bodies."""

    def read(item: Any, name: str) -> Surface:
        surface = read_surface(item, units=units, name=name)
        check_size(surface, allow_any_size)
        _refuse_flat(surface)
        if not allow_any_size and name.startswith("body"):
            _refuse_unit(surface, units)
        return surface

    skins = [read(item, f"body {i}" if len(bodies) > 1 else "body") for i, item in enumerate(bodies)]
    if isinstance(chambers, str) and chambers == CAVITIES:
        return skins, None
    one = isinstance(chambers, (str, os.PathLike)) or hasattr(chambers, "faces")
    return skins, [read(item, f"chamber {i + 1}") for i, item in enumerate([chambers] if one else chambers)]


def _checked(
    bodies: Sequence[Surface], chambers: Sequence[Surface] | None, allow_any_size: bool, rescue: bool
) -> tuple[list[Surface], list[Surface] | None]:
    """Sound surfaces, repaired where that is asked for and keeps what is sound as it is."""

    def checked(surface: Surface) -> Surface:
        mended = rescued(surface) if rescue else surface
        try:
            return check_surface(mended, allow_any_size=allow_any_size)
        except PartsError:
            raise
        except InputError as error:
            if not is_available() and (rescue or not _mendable(surface)):
                raise InputError(f"{error}; or {RESCUE_ADVICE}") from None
            if rescue:
                raise
            how = "let {} repair it" if _mendable(surface) else "try {}"
            raise InputError(f"{error}; or {how.format('rescue=True (rescue = true in a robot file)')}") from None

    skins = [checked(s) for s in bodies]
    return skins, None if chambers is None else [checked(s) for s in chambers]


def _closed(skins: list[Surface], inside: list[Surface] | None, depth: float) -> tuple[list[Surface], list[Surface]]:
    """Close the inlets of chambers: what is beyond the skin is cut off, and bores of cavities that are open are plugged."""
    if inside is None:
        skins = [plugged(skin, depth) for skin in skins]
        return skins, list(cavities(skins))
    middles = [shells.inner_point(c.vertices, c.faces, c.faces) for c in inside]
    held = [any(shells.encloses(s.vertices, outer(s), x) for s in skins) for x in middles]
    if all(held):
        return skins, [check_surface(capped(skins, c), allow_any_size=True) for c in inside]
    # a body that is open round a chamber: its cavity, once its bores are plugged, is the chamber
    skins = [plugged(skin, depth) for skin in skins]
    found, out = cavities(skins), []
    for chamber, x in zip(inside, middles):
        same = [c for c in found if shells.encloses(c.vertices, c.faces, x)]
        if not same:
            raise InputError(
                f"{chamber.label}: no cavity of the body holds its middle near {place(x)}; check its position"
            )
        out.append(replace(same[0], name=chamber.name, source=chamber.source))
    return skins, out


def _refuse_invented(hollows: Sequence[Surface], skins: Sequence[Surface], given: Sequence[Surface]) -> None:
    """Refuse cavities that a repair has made: tiny ones beside the body, and those that the surfaces given fill with body."""
    whole = sum(abs(skin.volume) for skin in skins)
    soups = [soup(s.vertices, s.faces) for s in given] if any(s.notices for s in skins) else []
    for hollow in hollows:
        middle = shells.inner_point(hollow.vertices, hollow.faces, hollow.faces)
        is_filled = any(s.holds(middle[None])[0] for s in soups)
        if hollow.volume < LEAST_CAVITY_REL * whole or is_filled:
            why = (
                "the surface as given has body there"
                if is_filled
                else f"{100 * hollow.volume / whole:.2g} % of the body"
            )
            raise UndecidedError(
                f"{hollow.label}: the repaired body encloses {hollow.volume * 1e9:.4g} mm^3 near {place(middle)}, {why}; fill "
                "this cavity in the CAD program, or give the surfaces of the chambers"
            )


def _cavities(skins: list[Surface]) -> list[Surface]:
    """Return the cavities of bodies; where there are none, name the bores that open them."""
    try:
        return list(cavities(skins))
    except InputError as error:
        found = [bore for skin in skins for bore in bores(skin)]
        if not found:
            raise
        names = " and ".join(str(bore) for bore in found)
        raise InputError(
            f'{skins[0].label}: chambers = "{CAVITIES}", but its cavity is open through {names}; to close it write '
            'inlet = "close"'
        ) from error


def _meshed(
    skins: Sequence[Surface],
    inside: Sequence[Surface],
    max_edge: float | None,
    symmetry: str | None,
    allowed: Allowance,
    remesh: bool | float = False,
    simplify: float | None = None,
    preview: bool = False,
) -> TetMesh:
    """Mesh checked surfaces, one half of them where a symmetry is asked for.

    Surfaces are remeshed first, by at most `simplify` [m] where that is given, unless their triangles are to be kept.
    """
    if simplify is not None:
        remesh = number(simplify, "simplify [m]", low=0.0) or False
    elif preview:
        remesh = True

    def mesh(bodies: Sequence[Surface], chambers: Sequence[Surface], edge: float | None) -> TetMesh:
        if remesh is False and not preview:
            return mesh_surfaces(bodies, chambers, max_edge=edge, allowed=allowed)
        return mesh_remeshed(bodies, chambers, max_edge=edge, allowed=allowed, remesh=remesh, preview=preview)

    if symmetry is None:
        return mesh(skins, inside, max_edge)
    axis, why = plane_of_symmetry(skins, inside, symmetry)
    if axis is None:
        found = mesh(skins, inside, max_edge)
        return replace(found, notices=(*found.notices, why))
    return mesh_halves(skins, inside, axis, max_edge, lambda halves, edge: mesh(halves, (), edge), fill_cavities)


def _refuse_unit(surface: Surface, units: str | None) -> None:
    """Refuse a body of about one millimetre before anything else is said of it: most often it is one unit of something else."""
    # diagonal [m]: a box one unit high, read as mm, has at most 1.74 mm; the smallest robots that are cast have more
    tiny_diagonal_m = 2e-3
    used = surface.vertices[surface.faces.ravel()]
    x, y, z = np.ptp(used, axis=0) * 1e3
    if MIN_PLAUSIBLE_SIZE_M <= surface.diagonal < tiny_diagonal_m:
        given = f"units = {units!r}" if units else "metres"
        raise InputError(
            f"{surface.label}: measures {x:.3g} x {y:.3g} x {z:.3g} mm with {given}; is that its unit? Name the right one (units "
            "= 'cm', 'in', 'm') or scale the surface; if it is that small, set allow_any_size = true"
        )


def _refuse_flat(surface: Surface) -> None:
    """Refuse a surface that is so thin in the mean that tets of its thickness are beyond any memory."""
    corners = surface.vertices[surface.faces]
    area = 0.5 * float(norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum())
    thickness = 2.0 * abs(float(det(corners).sum()) / 6.0) / max(area, MIN_DIVISOR)
    most_squares = 1e7  # of the thickness on the surface: each takes a hundred tets, 1e9 take 100 GB
    if thickness > 0.0 and area > most_squares * thickness**2:
        raise InputError(
            f"{surface.label}: is {1e3 * thickness:.3g} mm thin in the mean, over {1e6 * area:.3g} mm^2; tets of this size are "
            f"too many. Thicken it to {1e3 * (area / most_squares) ** 0.5:.2g} mm, or leave it out"
        )


def _mendable(surface: Surface) -> bool:
    """Whether rescue makes a sound surface of this one; a remedy that was not tried is none."""
    try:
        check_surface(rescued(surface))
    except InputError:
        return False
    return True


def check_tets(vertices: Floats, tets: Ints) -> None:
    """Refuse tets that occupy the same place.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    tets
        Vertex ids, shape (m, 4), of either orientation.

    Raises
    ------
    InputError
        Two tets have the same vertices, lie on the same side of a common face, or one holds a vertex of another.
    """
    # barycentric depth of a vertex in a foreign tet: less is the rounding of bodies that touch
    min_foreign_depth = 1e-6
    same = np.sort(tets, axis=1)
    _, first, count = np.unique(same, axis=0, return_index=True, return_counts=True)
    if len(first) < len(tets):
        raise InputError(
            f"tets: {len(tets) - len(first)} are there twice, e.g. vertices {same[first[np.argmax(count)]].tolist()}; "
            "remove the copies where the mesh was made, or with numpy.unique(np.sort(tets, axis=1), axis=0)"
        )
    turned, _ = topology.oriented(vertices, tets)
    crowded = topology.crowded_faces(turned)
    if len(crowded):
        _refuse_overlap(vertices, crowded[0], len(crowded), "faces have two tets on one side")
    held = vertices_in_tets(vertices, np.unique(tets), build_tree(vertices, turned))
    ids = np.flatnonzero(held >= 0)
    inside = np.unique(tets)[ids]
    corners = vertices[turned[held[ids]]]
    depth = np.linalg.solve(
        (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1), (vertices[inside] - corners[:, 0])[..., None]
    )[..., 0]
    deep = np.minimum(depth.min(axis=1, initial=1.0), 1.0 - depth.sum(axis=1)) > min_foreign_depth
    if deep.any():
        _refuse_overlap(vertices, inside[deep][:1], int(deep.sum()), "vertices lie inside tets that are not theirs")


def _refuse_overlap(vertices: Floats, ids: Ints, count: int, what: str) -> None:
    raise InputError(
        f"tets: overlapping, {count} {what}, e.g. near {place(vertices[ids].mean(axis=0))}; unite the bodies in the CAD program "
        "or omit one, and mesh again"
    )


def fill_cavities(
    vertices: Floats, tets: Ints, regions: Ints, materials: Sequence[int]
) -> tuple[Floats, Ints, Ints, tuple[str, ...]]:
    """Give a hollow mesh tets in the cavities that its bodies enclose.

    Parameters
    ----------
    vertices, tets, regions
        The mesh: positions [m] (n, 3), ids (m, 4), regions (m,).
    materials
        Regions that are bodies: all there are.

    Returns
    -------
    vertices, tets, regions, notices
        Those given and the new ones behind; the cavities are regions of their own, in the order of their places along x, y, z.

    Raises
    ------
    InputError
        The mesh has chamber tets already, no cavity, or one that cannot be filled.
    """
    others = sorted(set(np.unique(regions).tolist()) - set(materials))
    if others:
        raise InputError(
            f'chambers = "{CAVITIES}": regions {others} have no material, so they are chambers already; leave chambers out'
        )
    faces = topology.boundary_faces(topology.oriented(vertices, tets)[0])
    if shells.edge_counts(faces).max() > 2:
        raise InputError(
            "tets: parts of the boundary touch along an edge, so cavities are not defined; part or unite them"
        )
    shell = shells.shell_ids(faces)
    walls = [faces[shell == k][:, ::-1] for k in range(int(shell.max()) + 1)]
    walls = [w for w in walls if shells.signed_volume(vertices, w) > 0.0]
    if not walls:
        raise InputError(
            f'chambers = "{CAVITIES}": the tets enclose no cavity (or its inlet is open); close the '
            "inlet in the CAD program and mesh again, or omit chambers"
        )
    size = float(np.linalg.norm(np.ptp(vertices[np.unique(tets)], axis=0)))
    notices, region = [], max(materials)
    for k, i in enumerate(place_order([vertices[np.unique(w)] for w in walls], size)):
        found = fill(vertices, np.ascontiguousarray(walls[i]), len(vertices))
        volume = shells.signed_volume(vertices, walls[i]) * 1e9
        what = f"the cavity of {volume:.6g} mm^3 round {place(vertices[np.unique(walls[i])].mean(axis=0))}"
        if found is None:
            raise InputError(
                f"chamber {k + 1}: {what} cannot be filled with tets (its wall touches itself); mesh again"
            )
        vertices, tets = np.vstack([vertices, found[0]]), np.vstack([tets, found[1]])
        regions = np.append(regions, np.full(len(found[1]), region + 1 + k))
        notices.append(f"chamber {k + 1}: {what}, region {region + 1 + k}")
    return vertices, tets, regions, tuple(notices)
