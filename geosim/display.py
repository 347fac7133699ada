"""Display of a robot before it is solved: notebook representation and picture of its rest shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from geosim.contract import Robot

__all__ = ["Displayed"]


class Displayed:
    """Robots that show how they look at rest."""

    def plot(self: Robot, path: str | Path) -> Path:
        """Write a PNG of the robot at rest: walls of chambers through the skin, what is held red, the tip green.

        Raises
        ------
        InputError
            The suffix or the folder is wrong.
        """
        from geosim.show.rest import plot_rest

        return plot_rest(self, path)

    def _repr_html_(self: Robot) -> str:
        from geosim.show.notebook import robot_html

        return robot_html(self)
