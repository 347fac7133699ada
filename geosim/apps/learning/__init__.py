"""Robots as environments of Gymnasium: the import registers `geosim/Snake-v0`, `geosim/RodReach-v0` and `geosim/Gripper-v0`."""

from geosim.apps.learning.registration import ENVIRONMENTS, register

__all__ = ["ENVIRONMENTS", "register"]

register()
