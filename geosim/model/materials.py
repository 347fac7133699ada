"""Preset materials: `geosim.materials.ECOFLEX_00_30`, or by name `get("ecoflex-00-30")`.

Constants, sources, ranges of strain and other laboratories' moduli are in one file, geosim/data/materials.toml.
"""

from __future__ import annotations

import math
import tomllib
import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arguments import guarded, suggestion
from geosim.arrays import choice, floats, number, shown
from geosim.errors import InputError
from geosim.material.laws import material_from_dict
from geosim.material.materials import SILICONE_DENSITY, UNSAID_SOFTENING, Material
from geosim.material.relaxation import Relaxation
from geosim.model.tolerances import CONFIDENCE_LEVEL
from geosim.resources import read_toml, resource

__all__ = [
    "RUBBER_STATES",
    "Knowledge",
    "Preset",
    "as_material",
    "get",
    "knowledge",
    "known_preset",
    "known_unsoftened",
    "load_material",
    "names",
    "preset",
    "presets",
    "source_of",
]

RUBBER_STATES = ("first pull", "conditioned")  # of a rubber, by how often it was pulled before


@cache
def _table() -> dict[str, dict[str, Any]]:
    with resource("materials.toml").open("rb") as file:
        return tomllib.load(file)


@guarded
@dataclass(frozen=True)
class Preset:
    """A preset with what its source and its maker say.

    Parameters
    ----------
    name
        As robot files name it.
    material
        Its law, with source, range and scatter.
    shore
        Hardness, as the maker states it.
    family
        Product line of one cure and one source, whose moduli rise with hardness; "" for a single product.
    estimate
        Whether a data sheet is all that is known, no curve.
    notice
        What another version of geosim had under this name; "" where nothing has changed.
    """

    name: str
    material: Material
    shore: str
    family: str
    estimate: bool
    notice: str


@guarded
def names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(_table())


@guarded
def presets() -> tuple[Preset, ...]:
    """Return all presets with what is known of them."""
    return tuple(map(_preset, _table()))


@cache
def _preset(name: str) -> Preset:
    entry = _table()[name]
    preset_keys = (
        "source",
        "max_stretch",
        "shear_moduli",
        "shore",
        "family",
        "estimate",
        "of",
        "published",
        "changed",
        "alternatives",
    )
    plain = material_from_dict({k: v for k, v in entry.items() if k not in preset_keys}, f"preset {name!r}")
    moduli = [plain.shear_modulus, *(modulus for modulus, _ in entry.get("shear_moduli", []))]
    scatter = float(np.std(moduli, ddof=1) / np.mean(moduli)) if len(moduli) > 1 else math.nan
    others = "".join(f"; {modulus / 1e3:.4g} kPa: {where}" for modulus, where in entry.get("shear_moduli", []))
    laws = _alternatives(entry, f"preset {name!r}", plain)
    unsaid = 0.0 if entry.get("published", False) else UNSAID_SOFTENING
    material = plain.known_as(entry["source"] + others, entry.get("max_stretch", math.nan), scatter, unsaid, laws)
    notice, kept = "", entry.get("changed")
    if kept is not None:
        before = _preset(kept).material.shear_modulus / 1e3
        notice = (
            f"{name}: the shear modulus is {plain.shear_modulus / 1e3:.4g} kPa; it was {before:.4g} kPa up to version 0.3. "
            f"{kept} keeps the old constants"
        )
    return Preset(name, material, entry["shore"], entry.get("family", ""), entry.get("estimate", False), notice)


def _alternatives(table: dict[str, Any], place: str, law: Material) -> tuple[tuple[float, Material], ...]:
    """Return the laws that fit the same tests, with their weights; of the density of the law itself."""
    out = []
    for entry in table.get("alternatives", []):
        constants = {"density": getattr(law, "density", SILICONE_DENSITY)} | {
            k: v for k, v in entry.items() if k != "weight"
        }
        weight = number(entry.get("weight", math.nan), f"{place}: [[alternatives]] weight", low=0.0, high=1.0)
        out.append((weight, material_from_dict(constants, f"{place}: [[alternatives]]")))
    return tuple(out)


@guarded
def get(name: str) -> Material:
    """Return a preset by its name, for example "ecoflex-00-30".

    Returns
    -------
    Material
        With its `source`; `max_stretch`, up to which its constants were fitted (nan where the source does not say);
        `scatter`, the relative standard deviation of its shear modulus between the sources that are known, nan for one; and
        `alternatives`, other laws that fit its curve.

    Raises
    ------
    InputError
        No preset has this name; the nearest is suggested.
    """
    table = _table()
    if name not in table:
        raise InputError(
            f"material {name!r} is not a preset{suggestion(str(name), table)}; there are {', '.join(table)}"
        )
    found = _preset(name)
    if found.notice:
        # one line, without a line of source; of one place, so that Python shows each text once
        shown_once = globals().setdefault("__warningregistry__", {})
        warnings.warn_explicit(found.notice, FutureWarning, "geosim.materials", 1, __name__, shown_once)
    return found.material


preset = get


@guarded
@dataclass(frozen=True)
class Knowledge:
    """Knowledge of a product's shear modulus before a batch of it is tested: a log-normal distribution.

    Parameters
    ----------
    product
        Its name.
    median
        Of the shear modulus at rest [Pa].
    spread
        Standard deviation of its logarithm for a batch of another laboratory.
    sources
        (shear modulus [Pa], where it was found), one a source; empty for a product that is no preset.
    note
        What it rests on.
    """

    product: str
    median: float
    spread: float
    sources: tuple[tuple[float, str], ...]
    note: str

    def interval(self, level: float = CONFIDENCE_LEVEL) -> tuple[float, float]:
        """Return the interval [Pa] that holds the modulus of the next batch at some level."""
        factor = math.exp(
            NormalDist().inv_cdf(0.5 + 0.5 * number(level, "interval: level", low=0.0, high=1.0 - 1e-9)) * self.spread
        )
        return self.median / factor, self.median * factor

    def narrowed(self, modulus: float, spread: float) -> Knowledge:
        """Return what is known of a batch after a test of it found a modulus [Pa] with a standard deviation of its logarithm.

        The product of two log-normal densities: weights are inverse variances.
        """
        own = number(spread, "narrowed: spread", above=0.0)
        found = number(modulus, "narrowed: modulus [Pa]", above=0.0)
        weight = own**-2 / (own**-2 + self.spread**-2)
        middle = (1.0 - weight) * math.log(self.median) + weight * math.log(found)
        return replace(
            self, median=math.exp(middle), spread=(own**-2 + self.spread**-2) ** -0.5,
            note=f"{self.note}; narrowed by a test of {found / 1e3:.4g} kPa within {100 * own:.0f} %",
        )  # fmt: skip


@guarded
def knowledge(product: str, without: str = "\0") -> Knowledge:
    """Return what published sources say of a product's shear modulus, and how far they differ.

    With n sources of mean ln mu, the next laboratory differs by s sqrt(1 + 1 / n). Here s is the standard deviation of
    ln mu between laboratories, pooled over all presets with at least two sources.

    Parameters
    ----------
    product
        A preset, or any name: of a product that is none the distribution over all silicones is said.
    without
        Sources whose text contains this are left out, to predict them.

    Raises
    ------
    InputError
        All sources of the preset are left out.
    """
    moduli = {}
    for name, entry in _table().items():
        if "of" in entry:
            continue
        own = _preset(name).material
        listed = [(own.shear_modulus, str(entry["source"])), *((m, w) for m, w in entry.get("shear_moduli", []))]
        moduli[name] = [(m, w) for m, w in listed if without not in w]
    logs = [np.log([m for m, _ in found]) for found in moduli.values() if len(found) > 1]
    pooled = math.sqrt(sum(float(((v - v.mean()) ** 2).sum()) for v in logs) / max(sum(len(v) - 1 for v in logs), 1))
    product = str(_table().get(product, {}).get("of", product))
    if product in moduli:
        found = moduli[product]
        if not found:
            raise InputError(f"knowledge: {product!r} has no source without {without!r}")
        middle = float(np.mean(np.log([m for m, _ in found])))
        count = f"{len(found)} source{'s' * (len(found) > 1)}"
        told = f"{count}; laboratories differ by {100 * pooled:.0f} % (pooled over {len(logs)} products)"
        return Knowledge(product, math.exp(middle), pooled * math.sqrt(1.0 + 1.0 / len(found)), tuple(found), told)
    max_silicone_modulus_pa = 1.5e6  # shear modulus [Pa] above which presets are printed polyurethanes
    soft = [np.log(m) for found in moduli.values() for m, _ in found if m < max_silicone_modulus_pa]
    if not soft:
        raise InputError(f"knowledge: every source contains {shown(without)}, so that none is left")
    told = (
        f"{product!r} is no preset: the distribution over {len(soft)} sources of all silicones, which is wide; test it"
    )
    return Knowledge(str(product), math.exp(float(np.mean(soft))), float(np.std(soft, ddof=1)), (), told)


@guarded
def source_of(material: Material) -> str:
    """Return the name and the source of the preset that a material is; of another one its constants."""
    for name, entry in _table().items():
        if _preset(name).material == material:
            return f"{name}: {entry.get('source', 'no source')}"
    return str(material)


@guarded
def known_preset(material: Material) -> Material:
    """Return the preset with the constants of a material, with what is known of it beside them; without one itself."""
    return next((found.material for found in presets() if found.material == material), material)


@guarded
def load_material(path: str | Path, state: str | None = None, hold: float | None = None) -> Material:
    """Read a material TOML (model and constants; [Pa], [kg/m^3]) as it is after first pulls and a hold.

    Parameters
    ----------
    path
        As `Calibration.save` or `Conditioning.save` of `geosim.calibrate` write it.
    state
        "first pull" or "conditioned", the law of the table [conditioned]; None says nothing: the first pull, and the material's
        `unsaid_softening` holds what cycles may take.
    hold
        How long the load is held [s], by the Prony series of the table [relaxation]; None says nothing, likewise.

    Raises
    ------
    InputError
        The file is missing, not TOML, or describes no material; or it does not know the state or the hold.
    """
    path = Path(path)
    file = read_toml(path, "material file")
    table = file.get("material", file)
    # beside the constants in a file
    file_notes = "source", "name", "stretch_range", "stable", "rms", "statement", "warnings", "unsaid_softening"
    constants = {k: v for k, v in table.items() if not isinstance(v, dict) and k not in file_notes}
    first = _known(material_from_dict(constants, str(path)), table, file, str(path))
    return _softened(first, file.get("conditioned"), file.get("relaxation"), state, hold, str(path))


@guarded
def known_unsoftened(material: Material, state: str | None, hold: float | None) -> Material:
    """Return a material of which first pulls alone are known; other states and holds are refused."""
    return _softened(material, None, None, state, hold, "only first pulls are known of this material")


def _known(law: Material, table: dict[str, Any], file: dict[str, Any], place: str) -> Material:
    """Return the law of a file with what a calibration wrote beside it: source, range, error of the modulus, other laws."""
    if "calibration" not in file and "stretch_range" not in table:
        return law
    low, high = (number(v, f"{place}: stretch_range", above=0.0) for v in table.get("stretch_range", (1.0, 1.0)))
    fitted = file.get("calibration", {})
    reached = max(high, 1.0 / low)
    error = fitted.get("modulus_error", math.nan)
    if not (isinstance(error, float) and math.isnan(error)):  # nan where it is not known
        number(error, f"{place}: [calibration] modulus_error", low=0.0)
    number(fitted.get("confidence", CONFIDENCE_LEVEL), f"{place}: [calibration] confidence", low=0.0, high=1.0)
    for key in (key for key in fitted if key.startswith("interval_")):
        ends = floats(fitted[key], f"{place}: [calibration] {key}", (2,), finite=False)
        if not ends[0] <= ends[1]:
            raise InputError(f"{place}: [calibration] {key} = {ends.tolist()} must go from a number to a larger one")
    return law.known_as(
        str(table.get("source", "")), reached if reached > 1.0 else math.nan, error,
        number(table.get("unsaid_softening", 0.0), f"{place}: unsaid_softening", low=0.0, high=1.0),
        _alternatives(file, place, law),
    )  # fmt: skip


def _softened(first: Material, worn: Any, series: Any, state: str | None, hold: float | None, place: str) -> Material:
    """Return a law after first pulls and a hold, from tables of its conditioned law and its Prony series."""
    if state is not None:
        choice(state, f"{place}: state", RUBBER_STATES)
    conditioned = first if worn is None else material_from_dict(worn, f"{place}: [conditioned]")
    if state == "conditioned" and worn is None:
        raise InputError(
            f"{place}: state = 'conditioned' needs a cyclic test; save geosim.calibrate.fit_cycles(...), or leave state out"
        )
    if hold is not None and series is None:
        raise InputError(
            f"{place}: a hold of {hold!r} s needs a relaxation test; save geosim.calibrate.fit_relaxation(...) with its law, "
            f"or leave the hold out"
        )
    law = conditioned if state == "conditioned" else first
    left = conditioned.shear_modulus / first.shear_modulus if state is None else 1.0
    if series is not None:
        try:
            relaxation = Relaxation(**series)
        except TypeError as error:
            raise InputError(f"{place}: [relaxation] needs shares, times and duration: {error}") from None
        if hold is None:
            left *= relaxation.factor(relaxation.duration)
        else:
            law = law.stiffened(relaxation.factor(number(hold, f"{place}: hold [s]", low=0.0)))
    tested = worn is not None or series is not None  # of cycles or holds; else what rubbers lose is all that is known
    unsaid = max(1.0 - left, 0.0) if tested else first.unsaid_softening
    share = law.shear_modulus / first.shear_modulus
    laws = (
        tuple((weight, other.stiffened(share)) for weight, other in first.alternatives)
        if share != 1.0
        else first.alternatives
    )
    return law.known_as(first.source, first.max_stretch, first.scatter, unsaid, laws)


if TYPE_CHECKING:  # a material, the name of a preset, or the path of a material TOML
    MaterialLike = Material | str | Path


@guarded
def as_material(given: MaterialLike, owner: str = "material") -> Material:
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
