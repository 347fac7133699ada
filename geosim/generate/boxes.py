"""Designs of flat walls: PneuNet finger, membrane over chambers, tendon finger, muscle of beams that buckle."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.errors import InputError
from geosim.generate import limits
from geosim.generate.design import Design, face_box, generator, paper
from geosim.generate.surfaces import box, cells
from geosim.model.cable import Cable


@generator
def pneunet(
    chambers: int = 6,
    chamber_length: float | tuple[float, ...] = 8e-3,
    wall: float | tuple[float, ...] = 2e-3,
    gap: float = 2e-3,
    width: float = 20e-3,
    height: float | tuple[float, ...] = 18e-3,
    base: float = 4e-3,
    channel: tuple[float, float] = (2e-3, 2e-3),
    cap: float = 4e-3,
    layer: float | None = None,
    tip_height: float | None = None,
) -> Design:
    """Make a PneuNet finger: chambers on a base, joined by a channel to one cavity; it curls towards its base.

    Along +x from its clamped face x = 0, width along y from 0, base at z = 0. Its length is
    chambers (chamber_length + 2 wall) + (chambers - 1) gap + 2 cap. Chamber lengths, walls and heights may be given one by
    one, from the clamped end on: then it curls more where walls are thin and chambers high.

    Parameters
    ----------
    chambers
        Number of chambers.
    chamber_length
        Inner length of a chamber [m], or of each (chambers,).
    wall
        Thickness of the walls on the four sides of a chamber and above it [m], or of each chamber (chambers,).
    gap
        Distance of neighbouring chambers' outer walls [m].
    width, height
        Outer size along y and z [m]; the height also of each chamber (chambers,).
    base
        Thickness of what is solid below the chambers [m].
    cap
        Thickness of what is solid at both ends, besides the wall [m].
    channel
        Width and height [m] of the channel, which runs on the base; the thicker wall of both covers it between chambers.
    layer
        Thickness [m] of paper on the face z = 0, which lets the finger bend but not lengthen there; None: no paper.
    tip_height
        Height of the last chamber [m], to which those before fall or rise in equal steps; None: as high as the others.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(chambers=chambers)
    limits.length(gap=gap, width=width, base=base, cap=cap)
    across, up = channel
    limits.length(**{"channel width": across, "channel height": up})
    lengths = limits.each("chamber_length", chamber_length, chambers)
    walls, heights = limits.each("wall", wall, chambers), limits.each("height", height, chambers)
    if tip_height is not None:
        limits.length(tip_height=tip_height)
        if isinstance(height, (list, tuple)):
            raise InputError("tip_height does not go with a height of each chamber; give one of them")
        heights = np.linspace(height, tip_height, chambers) if chambers > 1 else heights
    cover = np.maximum(walls[1:], walls[:-1])  # of the channel between two chambers
    covers = np.stack([np.append(walls[:1], cover), np.append(cover, walls[-1:])], axis=1)  # before and after a chamber
    for thick, high, thickest in zip(walls.tolist(), heights.tolist(), covers.max(axis=1).tolist()):
        limits.less("wall", thick, 0.5 * width, "half the width")
        limits.less("base", base, high, "the height")
        limits.less("wall", thick, high - base, "the height less the base")
        limits.less("channel width", across, width - 2 * thick, "the width less two walls")
        limits.less("channel height", up, high - base - thickest, "the height less base and wall")
    starts = cap + np.append(0.0, np.cumsum(lengths + 2 * walls + gap)[:-1])  # of the outer walls
    ends = starts + lengths + 2 * walls

    def at_planes(first: Floats, second: Floats) -> Floats:
        """Numbers of each chamber at the planes where it begins and ends."""
        return np.stack([first, second], axis=1).ravel()

    outer = at_planes(starts, ends)
    outer[[0, -1]] = 0.0, ends[-1] + cap
    lower, top = base + up + covers.ravel(), at_planes(heights, heights)
    z = np.stack([np.zeros(len(top)), lower, top], axis=1)[:, None]
    body = cells((outer, [0.0, width], z), _teeth(2 * chambers - 1, lower=(1, 1)))
    inner = at_planes(starts + walls, ends - walls)
    side, middle = at_planes(walls, walls), 0.5 * width + 0.5 * across * np.array([-1.0, 1.0])
    y = np.stack([side, *np.broadcast_to(middle[:, None], (2, len(side))), width - side], axis=1)[:, :, None]
    z = np.stack([np.full(len(top), base), np.full(len(top), base + up), top - side], axis=1)[:, None]
    cavity = cells((inner, y, z), _teeth(2 * chambers - 1, (3, 1)))
    return Design(body, (cavity,), face_box(body, 0, 0), face_box(body, 0, -1), layers=paper(layer))


def _teeth(count: int, lower: tuple[int, int]) -> Bools:
    """Cells along x of which every other is solid to its top and the rest in the middle of the lower layer alone.

    `lower` counts cells along y, and those of the lower layer along z.
    """
    across, layers = lower
    filled = np.zeros((count, across, layers + 1), dtype=bool)
    filled[::2] = True
    filled[1::2, across // 2, :layers] = True
    return filled


@generator
def membrane(
    chambers: int = 4, size: float = 250e-3, thickness: float = 3e-3, pad_height: float = 10e-3, frame: float = 10e-3
) -> Design:
    """Make a square block with flat chambers under a membrane; inflated chambers lift it.

    From the origin along x and y, bottom at z = 0. Chambers are in rows and columns, as near to a square as their number
    allows, and count along y first. The bottom is held.

    Parameters
    ----------
    chambers
        Number of chambers.
    size
        Edge of the block [m].
    thickness
        Of the membrane, which covers the chambers [m].
    pad_height
        Inner height of the chambers [m].
    frame
        Thickness of what surrounds the chambers: rim, ribs between them and floor [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(chambers=chambers)
    limits.length(size=size, thickness=thickness, pad_height=pad_height, frame=frame)
    columns = max(d for d in range(1, int(np.sqrt(chambers)) + 1) if chambers % d == 0)
    rows = chambers // columns
    limits.less("frame", frame, size / (rows + 1), f"the size over {rows + 1} ribs")
    top = frame + pad_height + thickness
    body = box((0.0, 0.0, 0.0), (size, size, top))

    def places(number: int) -> list[tuple[float, float]]:
        inner = (size - (number + 1) * frame) / number
        return [(frame + i * (inner + frame), (i + 1) * (inner + frame)) for i in range(number)]

    cavities = tuple(
        box((x[0], y[0], frame), (x[1], y[1], frame + pad_height)) for x in places(columns) for y in places(rows)
    )
    middle = [[0.25 * size, 0.25 * size, 0.0], [0.75 * size, 0.75 * size, top]]
    return Design(body, cavities, face_box(body, 2, 0), face_box(body, 2, -1, middle))


@generator
def tendon_finger(
    joints: int = 3,
    length: float = 100e-3,
    width: float = 20e-3,
    height: float = 15e-3,
    notch: tuple[float, float] = (4e-3, 10e-3),
    cable_height: float = 12e-3,
) -> Design:
    """Make a finger with notches from above, whose floors are its joints, and a cable through what stands between them.

    Along +x from its clamped face x = 0, width along y from 0, bottom at z = 0; the cable runs in the middle of the width.

    Parameters
    ----------
    joints
        Number of notches, evenly along the finger.
    length, width, height
        Outer size [m].
    notch
        Length along x and depth of a notch [m].
    cable_height
        z of the cable [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(joints=joints)
    limits.length(length=length, width=width, height=height, cable_height=cable_height)
    long, deep = notch
    limits.length(**{"notch length": long, "notch depth": deep})
    limits.less("notch length", long, length / joints, "the length over the number of joints")
    limits.less("notch depth", deep, height, "the height")
    limits.less("cable_height", cable_height, height, "the height")
    centres = length / joints * (np.arange(joints) + 0.5)
    cuts = np.stack([centres - 0.5 * long, centres + 0.5 * long], axis=1).ravel()
    x: Floats = np.array([0.0, *cuts, length])
    body = cells((x, [0.0, width], [0.0, height - deep, height]), _teeth(2 * joints + 1, lower=(1, 1)))
    points = np.stack([x, np.full(len(x), 0.5 * width), np.full(len(x), cable_height)], axis=1)
    return Design(body, (), face_box(body, 0, 0), face_box(body, 0, -1), cables=(Cable(points, name="tendon"),))


@generator
def vacuum_muscle(
    columns: int = 3,
    rows: int = 2,
    cell: tuple[float, float] = (12e-3, 10e-3),
    beam: float = 1.5e-3,
    depth: float = 20e-3,
    skin: float = 1.5e-3,
    channel: tuple[float, float] = (3e-3, 3e-3),
    cap: float = 4e-3,
) -> Design:
    """Make a block of cells between beams, joined by channels to one cavity: vacuum buckles the beams and shortens it.

    After the buckling muscles of Yang et al. [2016, Advanced Materials Technologies 1]. Along +x from its clamped face
    x = 0, width along y from 0, bottom at z = 0.

    Parameters
    ----------
    columns, rows
        Number of cells along x and y.
    cell
        Inner length along x and width along y of a cell [m].
    beam
        Thickness of the walls between cells, and of both sides [m].
    depth
        Along z, with the skins [m].
    skin
        Thickness above and below the cells [m].
    channel
        Width and height of the channels through the middle of the beams [m].
    cap
        Thickness of both ends [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(columns=columns, rows=rows)
    limits.length(beam=beam, depth=depth, skin=skin, cap=cap)
    long, wide = cell
    across, up = channel
    limits.length(**{"cell length": long, "cell width": wide, "channel width": across, "channel height": up})
    limits.less("channel width", across, min(long, wide), "the cells")
    limits.less("channel height", up, depth - 2 * skin, "the depth less two skins")

    def planes(count: int, size: float, start: float) -> Floats:
        """Where each cell along an axis begins, where the channel through its middle does, and their ends."""
        within = 0.5 * (size + np.array([-1.0, -1.0, 1.0, 1.0]) * [size, across, across, size])
        return np.asarray((start + (size + beam) * np.arange(count)[:, None] + within).ravel())

    x, y = planes(columns, long, cap), planes(rows, wide, beam)
    z = 0.5 * (depth + np.array([-1.0, -1.0, 1.0, 1.0]) * [depth - 2 * skin, up, up, depth - 2 * skin])
    in_x, in_y = (np.arange(len(p) - 1) % 4 for p in (x, y))  # 3: in a beam; 1: the middle of a cell
    through = np.outer(in_x == 3, in_y == 1) | np.outer(in_x == 1, in_y == 3)
    filled = np.repeat(np.outer(in_x != 3, in_y != 3)[:, :, None], 3, axis=2)
    filled[:, :, 1] |= through
    body = box((0.0, 0.0, 0.0), (x[-1] + cap, y[-1] + beam, depth))
    return Design(body, (cells((x, y, z), filled),), face_box(body, 0, 0), face_box(body, 0, -1))
