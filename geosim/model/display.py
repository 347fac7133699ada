"""Display of a robot before it is solved: notebook representation and picture of its rest shape."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from geosim.arguments import Suggesting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geosim.model.contract import Robot


def later(where: str) -> Callable[..., Any]:
    """Return a function of a part of geosim that is built on what calls it, "show.picture.plot": imported when it is asked for.

    This is how a noun offers what pictures, files and derivatives do with it (`result.plot`) without knowing them.
    """
    module, _, name = where.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"geosim.{module}"), name)
    return found


class Displayed(metaclass=Suggesting):
    """Robots that show how they look at rest."""

    @overload
    def plot(self: Robot, path: None = None) -> Figure: ...

    @overload
    def plot(self: Robot, path: str | Path) -> Path: ...

    def plot(self: Robot, path: str | Path | None = None) -> Figure | Path:
        """Write a PNG of the robot at rest and return its path; without a path, return a matplotlib figure.

        It shows walls of chambers through the skin, what is held in red and the tip in green.

        Raises
        ------
        InputError
            The suffix or the folder is wrong.
        """
        drawn: Figure | Path = (
            later("show.rest.rest_figure")(self) if path is None else later("show.rest.plot_rest")(self, path)
        )
        return drawn

    def _repr_html_(self: Robot) -> str:
        return str(later("show.notebook.robot_html")(self))
