"""Coarsens surfaces that are cut finer than any mesh needs, within a distance that the user gives."""

from __future__ import annotations

from dataclasses import replace

from geosim.errors import InputError
from geosim.geometry.imprint import as_manifold, of_manifold
from geosim.geometry.rescue import deviation
from geosim.geometry.surface import Surface, check_surface

__all__ = ["simplified"]

TOLERANCE_SHARES = (
    1.0,
    0.5,
    0.25,
)  # of the distance allowed: where the whole makes a thin wall cross itself, less may not


def simplified(surface: Surface, within: float) -> Surface:
    """Return a checked surface with fewer triangles, no farther than `within` [m] from the one given, and a notice.

    Edges are collapsed by manifold3d, which keeps a subset of the vertices and what is connected with what; the distance is
    measured afterwards. A surface that cannot be coarsened comes back as it is, with a notice.
    """
    for share in TOLERANCE_SHARES:
        solid = as_manifold(surface.vertices, surface.faces).simplify(share * within)
        vertices, faces = of_manifold(solid, surface.diagonal)
        try:
            found = check_surface(replace(surface, vertices=vertices, faces=faces, notices=()), allow_any_size=True)
        except InputError:
            continue
        apart = deviation(surface, found)[0]
        if apart <= within and len(found.faces) < len(surface.faces):
            notice = (
                f"{surface.label}: simplified from {len(surface.faces)} to {len(found.faces)} triangles, within "
                f"{apart * 1e3:.2g} mm; its volume changed by {(found.volume - surface.volume) * 1e9:+.3g} mm^3"
            )
            return replace(found, notices=(*surface.notices, notice))
    notice = f"{surface.label}: no triangle can go within {within * 1e3:.2g} mm; it is kept as it is"
    return replace(surface, notices=(*surface.notices, notice))
