"""Discrete elastic rods, discrete shells, their joints and contact: the time stepper of [Choi2024] and [Lahoti]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geosim.rods.robot import RodShellRobot

__all__ = ["robot_from_table"]


def robot_from_table(table: dict[str, Any], path: Path) -> RodShellRobot:
    """Return the robot of the tables of a robot.toml; see `geosim.rods.table`."""
    from geosim.rods.table import robot_from_table as read

    return read(table, path)
