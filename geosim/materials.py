"""Preset materials: `geosim.materials.ECOFLEX_00_30`, or by name `get("ecoflex-00-30")`.

Constants, sources, ranges of strain and other laboratories' moduli stand in one file, geosim/data/materials.toml.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.errors import InputError
from geosim.material.laws import material_from_dict
from geosim.material.materials import Material
from geosim.resources import readable, resource

__all__ = ["as_material", "get", "known_preset", "load_material", "names", "preset", "source_of"]

KNOWN = ("source", "max_stretch", "shear_moduli")  # of a preset, beside its constants
NOTES = ("source", "name", "stretch_range", "stable", "rms", "statement", "warnings")  # beside the constants in a file


@cache
def _table() -> dict[str, dict[str, Any]]:
    with resource("materials.toml").open("rb") as file:
        return tomllib.load(file)


@guarded
def names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(_table())


@guarded
def get(name: str) -> Material:
    """Return a preset by its name, for example "ecoflex-00-30".

    Returns
    -------
    Material
        With its `source`; `max_stretch`, up to which its constants were fitted (nan where the source does not say); and
        `scatter`, the relative standard deviation of its shear modulus between the sources that are known, nan for one.

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
    entry = table[name]
    material = material_from_dict({k: v for k, v in entry.items() if k not in KNOWN}, f"preset {name!r}")
    moduli = [material.shear_modulus, *(modulus for modulus, _ in entry.get("shear_moduli", []))]
    scatter = float(np.std(moduli, ddof=1) / np.mean(moduli)) if len(moduli) > 1 else math.nan
    others = "".join(f"; {modulus / 1e3:.4g} kPa: {where}" for modulus, where in entry.get("shear_moduli", []))
    return material.known_as(entry["source"] + others, entry.get("max_stretch", math.nan), scatter)


preset = get


@guarded
def source_of(material: Material) -> str:
    """Return the name and the source of the preset that a material is; of another one its constants."""
    for name, entry in _table().items():
        if get(name) == material:
            return f"{name}: {entry.get('source', 'no source')}"
    return str(material)


def known_preset(material: Material) -> Material:
    """Return the preset with the constants of a material, with what is known of it beside them; without one itself."""
    return next((preset for preset in map(get, _table()) if preset == material), material)


@guarded
def load_material(path: str | Path) -> Material:
    """Read a material TOML (model and constants; [Pa], [kg/m^3]).

    Raises
    ------
    InputError
        The file is missing, not TOML, or describes no material.
    """
    path = readable(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such material file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not a readable TOML file: {error}") from None
    table = table.get("material", table)
    constants = {k: v for k, v in table.items() if not isinstance(v, dict) and k not in NOTES}
    return material_from_dict(constants, str(path))


@guarded
def as_material(given: Any, owner: str = "material") -> Material:
    """Return a material from an object, the name of a preset or the path of a material TOML.

    Parameters
    ----------
    given
        Material, str or Path.
    owner
        For messages.

    Raises
    ------
    InputError
        It is none of them.
    """
    if isinstance(given, Path) or (isinstance(given, str) and given.lower().endswith(".toml")):
        return load_material(given)
    if isinstance(given, str):
        return get(given)
    if not isinstance(given, Material):
        raise InputError(f"{owner}: {given!r} is neither a material nor a preset name such as 'ecoflex-00-30'")
    return given


def __getattr__(name: str) -> Material:
    """Return a preset by its Python name, for example ECOFLEX_00_30."""
    key = name.lower().replace("_", "-")
    if name.isupper() and key in _table():
        return get(key)
    raise AttributeError(f"module 'geosim.materials' has no attribute {name!r}")
