"""A snake from a robot.toml.

::

    kind = "snake"
    units = "mm"                       # of the lengths in [snake]
    [snake]                            # the arguments of make_snake
    links = 4
    link_length = 100.0
    material = { model = "linear-elastic", youngs_modulus = 66e3, poisson_ratio = 0.45, density = 1070.0 }
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, create_model

from geosim.snake.model import SnakeRobot
from geosim.snake.snake import make_snake

__all__ = ["robot_from_table"]

_LENGTHS = (
    "link_length",
    "link_width",
    "link_height",
    "carriage_length",
    "wheel_radius",
    "wheel_width",
    "track",
    "spacing",
)


def robot_from_table(table: dict[str, Any], path: Path) -> SnakeRobot:
    """Return the snake of a robot.toml without its [environment] and [solver].

    Parameters
    ----------
    table
        The tables of the file: `kind`, `units` and [snake].
    path
        The file, for messages and for a material file beside it.

    Raises
    ------
    InputError
        A key is unknown, or a value has the wrong type or is impossible; file and key are named.
    """
    from geosim.files.messages import Place
    from geosim.files.values import positive, read_material, validated
    from geosim.robot import UNITS

    place = Place(path)
    if "units" not in table:
        raise place.error(
            'units is missing; write units = "mm" (or "m", "cm", "in"), the unit of the lengths in [snake]'
        )
    extra = sorted(set(table) - {"kind", "units", "snake"})
    if extra:
        raise place.error(f"{extra[0]!r} is unknown; a snake has kind, units, [snake], [environment] and [solver]")
    spot = place.at("snake")
    arguments = inspect.signature(make_snake, eval_str=True).parameters
    fields: dict[str, Any] = {
        name: (Any if name == "material" else argument.annotation, argument.default)
        for name, argument in arguments.items()
    }
    model = create_model("Snake", __config__=ConfigDict(extra="forbid", strict=True, frozen=True), **fields)
    given = validated(model, table.get("snake", {}), spot)
    options = {name: getattr(given, name) for name in given.model_fields_set}
    for name in set(_LENGTHS) & set(options):
        options[name] = positive(options[name], spot.at(name)) * UNITS[table["units"]]
    if "material" in options:
        options["material"] = read_material(options["material"], spot)
    with spot.naming():
        return make_snake(**options)
