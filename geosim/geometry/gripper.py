"""A three-finger gripper: PneuNet fingers hanging from a palm, each a body of its own that is bonded to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.errors import InputError
from geosim.geometry.parametric import pneunet_finger

__all__ = ["three_finger_gripper"]


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
        Of a finger [m], see `parametric.pneunet_finger`; its base faces the axis.
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
