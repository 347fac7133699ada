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

from typing import Any, get_type_hints

from pydantic import create_model

from geosim.arrays import METRES_PER_UNIT
from geosim.files.messages import Place
from geosim.files.schema import SnakeFile, Table
from geosim.files.values import positive, read_material, validated
from geosim.snake.model import SnakeRobot
from geosim.snake.snake import KEYWORDS, make_snake

_OWN_ARGUMENTS = {
    "links": int,
    "count": int,
    "friction": float,
    "spacing": float,
    "hold_tail": bool,
}  # arguments of no part


def read_robot(table: dict[str, Any], place: Place) -> SnakeRobot:
    """Return the snake of the tables of a robot.toml, which stand at `place`.

    Raises
    ------
    InputError
        A key is unknown, or a value has the wrong type or is impossible; file and key are named.
    """
    file: SnakeFile = validated(SnakeFile, table, place)
    spot = place.at("snake")
    fields: dict[str, Any] = {name: (kind, None) for name, kind in _OWN_ARGUMENTS.items()}
    for name, (part, field) in KEYWORDS.items():
        fields[name] = (Any if name == "material" else get_type_hints(part)[field], None)
    model = create_model("Snake", __base__=Table, **fields)
    given = validated(model, file.snake, spot)
    options = {name: getattr(given, name) for name in given.model_fields_set}
    lengths = (
        "link_length",
        "link_width",
        "link_height",
        "carriage_length",
        "wheel_radius",
        "wheel_width",
        "track",
        "spacing",
    )
    for name in set(lengths) & set(options):
        options[name] = positive(options[name], spot.at(name)) * METRES_PER_UNIT[file.units]
    if "material" in options:
        options["material"] = read_material(options["material"], spot)
    with spot.naming():
        return make_snake(**options)
