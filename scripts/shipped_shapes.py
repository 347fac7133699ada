"""Surfaces of the robots in geosim/data/meshes/ and of reference bodies, by Boolean operations on solids.

Their triangles are those of the files that ship, which `geosim.generate` cuts differently.

Every function returns (body, chambers): closed trimesh surfaces in metres, the body without its cavities (the mesher
cuts them), the chambers as a list. Lengths in metres; x runs along the robot, z up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.errors import InputError

__all__ = [
    "block",
    "membrane_over_chambers",
    "plain_finger",
    "pneunet_finger",
    "thick_sphere",
    "thick_tube",
    "three_finger_gripper",
    "twister",
]

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


def plain_finger(
    length: float = 0.1,
    width: float = 0.02,
    height: float = 0.02,
    *,
    end: float = 0.005,
    side: float = 0.005,
    base: float = 0.011,
    roof: float = 0.003,
) -> Shape:
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


def pneunet_finger(
    length: float = 0.110,
    width: float = 0.020,
    height: float = 0.020,
    *,
    bellows: int = 10,
    gap: float = 0.002,
    wall: float = 0.0015,
    side: float = 0.002,
    roof: float = 0.002,
    base: float = 0.004,
    channel_width: float = 0.004,
    channel_height: float = 0.002,
) -> Shape:
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
    _positive(
        length=length,
        width=width,
        height=height,
        gap=gap,
        wall=wall,
        side=side,
        roof=roof,
        base=base,
        channel_width=channel_width,
        channel_height=channel_height,
    )
    thick = (length - (bellows - 1) * gap) / bellows if bellows >= 1 else 0.0
    spine = base + channel_height + roof
    if bellows < 1 or thick <= 2 * wall or 2 * side >= width or spine >= height or channel_width > width - 2 * side:
        raise InputError(
            f"pneunet_finger: {bellows} bellows of {height * MM:g} mm with these walls and gaps leave no "
            "room for the cavity; make the walls thinner or the finger larger"
        )
    starts = np.arange(bellows) * (thick + gap)
    body = _box((0, length), (0, width), (0, height))
    for start in starts[1:]:
        # The cutter stands out on three sides, so that no face of it lies in a face of the body.
        body -= _box((start - gap, start), (-width, 2 * width), (spine, 2 * height))
    cavity = _box(
        (wall, length - wall), ((width - channel_width) / 2, (width + channel_width) / 2), (base, base + channel_height)
    )
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


def thick_tube(
    inner: float = 0.010, outer: float = 0.015, length: float = 0.060, *, cap: float = 0.0, segments: int = 48
) -> Shape:
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


def twister(
    diameter: float = 0.020,
    length: float = 0.100,
    *,
    turns: float = 2.0,
    mean_radius: float = 0.006,
    slot_height: float = 0.0051,
    chamber_fraction: float = 0.01,
    end: float = 0.005,
    segments: int = 32,
) -> Shape:
    """Make a cylinder along x with a thin slot that winds about its axis; it twists and coils when inflated.

    The slot is a ribbon that stands on edge: it reaches over `slot_height` along the radius, winds `turns` times at
    `mean_radius`, and is as thick as `chamber_fraction` asks.

    Parameters
    ----------
    diameter, length
        Of the cylinder [m].
    turns
        Windings of the slot; negative winds the other way.
    mean_radius
        Distance of the middle of the slot from the axis [m].
    slot_height
        Size of the slot along the radius [m].
    chamber_fraction
        Volume of the chamber over that of the cylinder.
    end
        Distance of the slot from both ends of the cylinder [m].
    segments
        Corners of the cylinder's circle.

    Raises
    ------
    InputError
        If a length is not positive or the slot does not fit.
    """
    import trimesh
    from manifold3d import Manifold

    _positive(
        diameter=diameter,
        length=length,
        mean_radius=mean_radius,
        slot_height=slot_height,
        end=end,
        chamber_fraction=chamber_fraction,
    )
    inner, outer = mean_radius - slot_height / 2, mean_radius + slot_height / 2
    if inner <= 0 or outer >= diameter / 2 or 2 * end >= length or turns == 0 or segments < 8 or chamber_fraction > 0.1:
        raise InputError(
            "twister: the slot does not fit; make it lower, put it nearer to the middle of the radius, or "
            "take a longer or thicker cylinder"
        )
    skin = Manifold.cylinder(length * MM, diameter / 2 * MM, circular_segments=segments).rotate((0, 90, 0))
    body = _surface(skin)
    wanted = chamber_fraction * float(body.volume)
    path = float(np.hypot(2 * np.pi * turns * mean_radius, length - 2 * end))
    thickness = wanted / (path * slot_height)
    for _ in range(6):  # facets and the slope at other radii change the volume by some percent
        ribbon = _ribbon(length, end, turns, inner, outer, thickness)
        thickness *= wanted / float(ribbon.volume)
    return body, [trimesh.Trimesh(ribbon.vertices, ribbon.faces, process=False)]


def _ribbon(length: float, end: float, turns: float, inner: float, outer: float, thickness: float) -> Any:
    """Closed surface of a tube of lens-shaped section that winds about the x axis at radii `inner` .. `outer` [m].

    The section is pointed at both edges: sides of a fraction of a millimetre there would ask for as small tets.
    """
    import trimesh

    middle = 0.5 * (inner + outer)
    span = length - 2 * end
    path = float(np.hypot(2 * np.pi * turns * middle, span))
    across = max(2, round((outer - inner) / 0.0013))
    steps = max(8, round(path * across / (outer - inner)))
    s = np.linspace(0.0, 1.0, steps + 1)[:, None]
    angle = 2 * np.pi * turns * s
    zero = np.zeros_like(s)
    radial = np.hstack([zero, np.cos(angle), np.sin(angle)])
    around = np.hstack([zero, -np.sin(angle), np.cos(angle)])
    # perpendicular to the path and to the radius, at the mean radius
    normal = (2 * np.pi * turns * middle * np.array([1.0, 0.0, 0.0]) - span * around) / path
    axis = np.hstack([end + span * s, zero, zero])
    place = np.linspace(-1.0, 1.0, across + 1)
    side = [(middle + 0.5 * q * (outer - inner), 0.5 * thickness * (1.0 - q * q)) for q in place]
    loop = [axis + r * radial + h * normal for r, h in side] + [
        axis + r * radial - h * normal for r, h in side[-2:0:-1]
    ]
    vertices = np.stack(loop, axis=1)  # (steps + 1, loop, 3)
    count = vertices.shape[1]
    number = lambda i, j: i * count + j % count  # noqa: E731
    faces = []
    for i in range(steps):
        for j in range(count):
            a, b, c, d = number(i, j), number(i, j + 1), number(i + 1, j + 1), number(i + 1, j)
            faces += [[a, b, c], [a, c, d]] if (i + j) % 2 else [[a, b, d], [b, c, d]]
    for i in (0, steps):  # end caps: strips between the two sides
        cap = []
        for j in range(across):
            quad = [j, j + 1, (count - j - 1) % count, (count - j) % count]
            cap += [t for t in ([quad[0], quad[1], quad[2]], [quad[0], quad[2], quad[3]]) if len(set(t)) == 3]
        faces += [[number(i, k) for k in (t if i == 0 else t[::-1])] for t in cap]
    mesh = trimesh.Trimesh(vertices.reshape(-1, 3), np.array(faces), process=False)
    mesh.fix_normals()
    return mesh


def membrane_over_chambers(
    size: float = 0.250,
    thickness: float = 0.004,
    *,
    pad: float = 0.100,
    spacing: float = 0.110,
    base: float = 0.003,
    chamber: float = 0.090,
    chamber_height: float = 0.005,
    roof: float = 0.004,
    gap: float = 0.001,
) -> tuple[list[Any], list[Any], Any]:
    """Make a square membrane over four inflatable pads, apart from them by a gap; inflated pads lift it.

    Parameters
    ----------
    size, thickness
        Of the membrane [m]; its rim is to be held.
    pad, spacing
        Width of a square pad and distance of the centres of neighbouring pads [m]; pads stand on z = 0.
    base, chamber, chamber_height, roof
        Thickness of the pad below its chamber, width and height of the chamber, thickness above it [m].
    gap
        Between pads and membrane [m].

    Returns
    -------
    bodies, chambers, held
        The membrane and four pads; four chambers in the same order (x then y ascending); an open surface of what
        is to be held: the membrane's rim and the ground of the pads.

    Raises
    ------
    InputError
        If a length is not positive or the parts do not fit.
    """
    import trimesh

    _positive(
        size=size,
        thickness=thickness,
        pad=pad,
        spacing=spacing,
        base=base,
        chamber=chamber,
        chamber_height=chamber_height,
        roof=roof,
        gap=gap,
    )
    if chamber >= pad or pad >= spacing or spacing + pad > size:
        raise InputError("membrane_over_chambers: need chamber < pad < spacing and spacing + pad <= size")
    half, top = size / 2, base + chamber_height + roof
    low, high = top + gap, top + gap + thickness
    bodies, chambers = [_surface(_box((-half, half), (-half, half), (low, high)))], []
    quads = [[(sx * half, -sy * half, z) for z in (low, high)] for sx, sy in ((-1, 1), (1, 1), (1, -1), (-1, -1))]
    held = [[quads[i][0], quads[(i + 1) % 4][0], quads[(i + 1) % 4][1], quads[i][1]] for i in range(4)]
    for x in (-spacing / 2, spacing / 2):
        for y in (-spacing / 2, spacing / 2):
            p, c = pad / 2, chamber / 2
            bodies.append(_surface(_box((x - p, x + p), (y - p, y + p), (0, top))))
            chambers.append(_surface(_box((x - c, x + c), (y - c, y + c), (base, base + chamber_height))))
            held.append([(x - p, y - p, 0), (x - p, y + p, 0), (x + p, y + p, 0), (x + p, y - p, 0)])
    corners = np.array(held).reshape(-1, 3)
    faces = [[4 * i + a, 4 * i + b, 4 * i + c] for i in range(len(held)) for a, b, c in ((0, 1, 2), (0, 2, 3))]
    return bodies, chambers, trimesh.Trimesh(corners, np.array(faces), process=False)


def three_finger_gripper(
    length: float = 0.060,
    width: float = 0.016,
    height: float = 0.016,
    *,
    inner_radius: float = 0.034,
    palm: float = 0.008,
    rim: float = 0.003,
    fingers: int = 3,
    bellows: int = 5,
    **finger: float,
) -> tuple[list[Any], list[Any]]:
    """Make a gripper whose fingers hang down (-z) from a disc and curl towards its axis (z) when inflated.

    Parameters
    ----------
    length, width, height, bellows, finger
        Of a finger [m], see `pneunet_finger`; its base faces the axis.
    inner_radius
        Distance of the fingers' bases from the axis [m].
    palm, rim
        Thickness of the disc and how far it stands out beyond the fingers [m]; the disc lies on z = 0 .. palm.
    fingers
        Number of fingers, evenly around the axis, the first along x.

    Returns
    -------
    bodies, chambers
        The palm and the fingers, which touch it; one cavity a finger.

    Raises
    ------
    InputError
        If a length is not positive or the fingers do not fit round the axis.
    """
    import trimesh

    for name, value in (("inner_radius", inner_radius), ("palm", palm), ("rim", rim)):
        if not value > 0:
            raise InputError(f"three_finger_gripper: {name} = {value!r} must be a positive length in metres")
    if fingers < 2 or 2 * inner_radius * np.tan(np.pi / fingers) < width:
        raise InputError(
            f"three_finger_gripper: {fingers} fingers of {width * 1e3:g} mm do not fit at a radius of "
            f"{inner_radius * 1e3:g} mm"
        )
    options = {
        "gap": 0.002,
        "wall": 0.0015,
        "side": 0.002,
        "roof": 0.002,
        "base": 0.0035,
        "channel_height": 0.002,
        **finger,
    }
    body, (cavity,) = pneunet_finger(length, width, height, bellows=bellows, **options)
    bodies: list[Any] = []
    chambers: list[Any] = []
    for k in range(fingers):
        angle = 2.0 * np.pi * k / fingers
        outward = np.array([np.cos(angle), np.sin(angle), 0.0])
        across = np.array([-np.sin(angle), np.cos(angle), 0.0])
        pose = np.eye(4)
        # along the finger: down; from its base to its bellows: outward
        pose[:3, 0], pose[:3, 2] = [0.0, 0.0, -1.0], outward
        pose[:3, 1] = np.cross(pose[:3, 2], pose[:3, 0])
        pose[:3, 3] = inner_radius * outward - 0.5 * width * pose[:3, 1]
        assert abs(abs(pose[:3, 1] @ across) - 1.0) < 1e-9
        for solid, out in ((body, bodies), (cavity, chambers)):
            turned = solid.copy()
            turned.apply_transform(pose)
            out.append(turned)
    disc = trimesh.creation.cylinder(radius=inner_radius + height + rim, height=palm, sections=48)
    disc.apply_translation([0.0, 0.0, 0.5 * palm])
    return [disc, *bodies], chambers
