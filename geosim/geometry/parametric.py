"""Surfaces of simple robots from a few lengths, by Boolean operations on solids.

Every function returns (body, chambers): closed trimesh surfaces in metres, the body without its cavities (the mesher
cuts them), the chambers as a list. Lengths in metres; x runs along the robot, z up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.errors import InputError

__all__ = ["block", "plain_finger", "pneunet_finger", "thick_sphere", "thick_tube"]

# Solids are built in millimetres: the Boolean operations snap to absolute lengths.
MM = 1e3
# Edges shorter than this and triangles flatter than this go [mm]: slivers of Boolean operations crash the mesher.
SIMPLIFY = 1e-4

Shape = tuple[Any, list[Any]]


def _positive(**lengths: float) -> None:
    for name, value in lengths.items():
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} = {value!r}: need a positive length in metres")


def _box(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float]) -> Any:
    """Box between limits [m] as a manifold in mm."""
    from manifold3d import Manifold

    low, high = np.array([x, y, z]).T * MM
    return Manifold.cube((high - low).tolist()).translate(low.tolist())


def _surface(solid: Any) -> Any:
    """Trimesh in metres of a manifold in mm, without slivers."""
    import trimesh

    mesh = solid.simplify(SIMPLIFY).to_mesh64()
    return trimesh.Trimesh(np.asarray(mesh.vert_properties)[:, :3] / MM, np.asarray(mesh.tri_verts), process=False)


def block(length: float = 0.1, width: float = 0.02, height: float = 0.02) -> Shape:
    """Make a plain beam or block without a chamber, from the origin to (length, width, height) [m]."""
    _positive(length=length, width=width, height=height)
    return _surface(_box((0, length), (0, width), (0, height))), []


def plain_finger(length: float = 0.1, width: float = 0.02, height: float = 0.02, *, end: float = 0.005,
                 side: float = 0.005, base: float = 0.011, roof: float = 0.003) -> Shape:
    """Make a straight finger with one straight chamber above its middle; it bends down when inflated.

    Parameters
    ----------
    length, width, height
        Outer size along x, y, z [m].
    end, side, base, roof
        Thickness [m] of the two end walls, the two side walls, of what is below and above the chamber.

    Raises
    ------
    InputError
        If a length is not positive or the walls leave no room for the chamber.
    """
    _positive(length=length, width=width, height=height, end=end, side=side, base=base, roof=roof)
    if 2 * end >= length or 2 * side >= width or base + roof >= height:
        raise InputError("plain_finger: the walls leave no room for the chamber; make them thinner")
    body = _box((0, length), (0, width), (0, height))
    chamber = _box((end, length - end), (side, width - side), (base, height - roof))
    return _surface(body), [_surface(chamber)]


def pneunet_finger(length: float = 0.110, width: float = 0.020, height: float = 0.020, *, bellows: int = 10,
                   gap: float = 0.002, wall: float = 0.0015, side: float = 0.002, roof: float = 0.002,
                   base: float = 0.004, channel_width: float = 0.004, channel_height: float = 0.002) -> Shape:
    """Make a PneuNet finger: bellows on a thicker base, one cavity joined by a channel; it curls towards its base.

    Parameters
    ----------
    length, width, height
        Outer size along x, y, z [m].
    bellows
        Number of bellows.
    gap
        Distance of neighbouring bellows [m].
    wall, side, roof
        Thickness [m] of the bellows' walls across x, across y, and above.
    base
        Thickness [m] of the layer below the cavity, the one that strains least.
    channel_width, channel_height
        Size [m] of the channel that joins the bellows' cavities, along y and z; it runs on the base.

    Returns
    -------
    body, chambers
        The solid from the origin to (length, width, height), and one cavity.

    Raises
    ------
    InputError
        If a length is not positive or the walls leave no room.
    """
    _positive(length=length, width=width, height=height, gap=gap, wall=wall, side=side, roof=roof, base=base,
              channel_width=channel_width, channel_height=channel_height)
    thick = (length - (bellows - 1) * gap) / bellows if bellows >= 1 else 0.0
    spine = base + channel_height + roof
    if bellows < 1 or thick <= 2 * wall or 2 * side >= width or spine >= height or channel_width > width - 2 * side:
        raise InputError(f"pneunet_finger: {bellows} bellows of {height * MM:g} mm with these walls and gaps leave no "
                         "room for the cavity; make the walls thinner or the finger larger")
    starts = np.arange(bellows) * (thick + gap)
    body = _box((0, length), (0, width), (0, height))
    for start in starts[1:]:
        # The cutter stands out on three sides, so that no face of it lies in a face of the body.
        body -= _box((start - gap, start), (-width, 2 * width), (spine, 2 * height))
    cavity = _box((wall, length - wall), ((width - channel_width) / 2, (width + channel_width) / 2),
                  (base, base + channel_height))
    for start in starts:
        cavity += _box((start + wall, start + thick - wall), (side, width - side), (base, height - roof))
    return _surface(body), [_surface(cavity)]


def thick_sphere(inner: float = 0.010, outer: float = 0.020, *, subdivisions: int = 3) -> Shape:
    """Make a hollow sphere with radii [m] about the origin, an icosahedron split `subdivisions` times."""
    import trimesh

    _positive(inner=inner, outer=outer)
    if inner >= outer:
        raise InputError(f"thick_sphere: inner = {inner!r} must be smaller than outer = {outer!r}")
    body = trimesh.creation.icosphere(subdivisions, outer)
    return body, [trimesh.creation.icosphere(subdivisions, inner)]


def thick_tube(inner: float = 0.010, outer: float = 0.015, length: float = 0.060, *, cap: float = 0.0,
               segments: int = 48) -> Shape:
    """Make a tube along x.

    Parameters
    ----------
    inner, outer, length
        Radii and length [m].
    cap
        Thickness [m] of the end caps; 0 is a tube open at both ends, without a chamber.
    segments
        Corners of the circles.

    Raises
    ------
    InputError
        If a length is not positive, or the bore is larger than the tube.
    """
    from manifold3d import Manifold

    _positive(inner=inner, outer=outer, length=length)
    if inner >= outer or not 0 <= cap < length / 2 or segments < 3:
        raise InputError("thick_tube: need inner < outer, 0 <= cap < length / 2 and at least 3 segments")

    def cylinder(radius: float, start: float, end: float) -> Any:
        solid = Manifold.cylinder((end - start) * MM, radius * MM, circular_segments=segments)
        return solid.rotate((0, 90, 0)).translate((start * MM, 0, 0))

    skin = cylinder(outer, 0, length)
    if cap == 0:
        return _surface(skin - cylinder(inner, -length, 2 * length)), []
    return _surface(skin), [_surface(cylinder(inner, cap, length - cap))]
