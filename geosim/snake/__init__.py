"""Multibody soft-rigid dynamics and the soft snake of [Gasoto2019]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geosim.snake.model import SnakeRobot

__all__ = ["robot_from_table"]


def robot_from_table(table: dict[str, Any], path: Path) -> SnakeRobot:
    """Return the snake of the tables of a robot.toml; see `geosim.snake.table`."""
    from geosim.snake.table import robot_from_table as read

    return read(table, path)
