"""Preset materials: `geosim.materials.ECOFLEX_00_30`, or by name "ecoflex-00-30".

Constants and sources stand in one file, calibration/materials.toml.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from geosim.errors import InputError
from geosim.material.laws import material_from_dict
from geosim.material.materials import Material
from geosim.resources import resource

__all__ = ["load_material", "names", "preset", "source_of"]

NOTES = ("source", "name", "stretch_range", "stable", "rms", "statement", "warnings")  # beside the constants in a file


def _table() -> dict[str, dict[str, Any]]:
    with (resource("calibration") / "materials.toml").open("rb") as file:
        return tomllib.load(file)


def names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(_table())


def preset(name: str) -> Material:
    """Return a preset by its name, for example "ecoflex-00-30".

    Raises
    ------
    InputError
        No preset has this name; the nearest is suggested.
    """
    table = _table()
    if name not in table:
        near = difflib.get_close_matches(str(name), table, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"material {name!r} is not a preset ({', '.join(table)}){hint}")
    entry = dict(table[name])
    entry.pop("source", None)
    return material_from_dict(entry, f"preset {name!r}")


def source_of(material: Material) -> str:
    """Return the name and the source of the preset that a material is; of another one its constants."""
    for name, entry in _table().items():
        if preset(name) == material:
            return f"{name}: {entry.get('source', 'no source')}"
    return str(material)


def load_material(path: str | Path) -> Material:
    """Read a material TOML (model and constants; [Pa], [kg/m^3]).

    Raises
    ------
    InputError
        The file is missing, not TOML, or describes no material.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such material file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not a readable TOML file: {error}") from None
    table = table.get("material", table)
    constants = {k: v for k, v in table.items() if not isinstance(v, dict) and k not in NOTES}
    return material_from_dict(constants, str(path))


def __getattr__(name: str) -> Material:
    """Return a preset by its Python name, for example ECOFLEX_00_30."""
    key = name.lower().replace("_", "-")
    if name.isupper() and key in _table():
        return preset(key)
    raise AttributeError(f"module 'geosim.materials' has no attribute {name!r}")
