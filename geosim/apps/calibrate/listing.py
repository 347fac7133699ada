"""The table of presets and the picture of their curves: `geosim materials`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from geosim.apps.calibrate.calibration import stability_statement
from geosim.apps.calibrate.curves import find_model
from geosim.apps.calibrate.preparing import DEFAULT_MAX_STRETCH
from geosim.material.curves import nominal_stress
from geosim.material.materials import Hyperelastic
from geosim.model import materials
from geosim.model.materials import Preset
from geosim.writing import checked_target

NOT_TOLD = "-"


def lines(name: str | None = None) -> list[str]:
    """Return the table of all presets as lines of text, or one preset with its source.

    Raises
    ------
    InputError
        No preset has this name.
    """
    if name is None:
        head = f"{'name':26s} {'Shore':>6s} {'mu [kPa]':>9s} {'to stretch':>10s} {'between labs':>12s}  law, source"
        return [head, *(_row(p) for p in materials.presets())]
    materials.get(name)
    (found,) = (p for p in materials.presets() if p.name == name)
    law = _law(found)
    table = {k: v if isinstance(v, list | tuple) else [v] for k, v in law.to_dict().items() if k != "model"}
    constants = ", ".join(f"{k} {' '.join(f'{v:g}' for v in values)}" for k, values in table.items())
    known = [f"shear modulus {law.shear_modulus / 1e3:.4g} kPa", f"Shore {found.shore}"]
    known += [f"fitted to stretch {law.max_stretch:g}"] if np.isfinite(law.max_stretch) else []
    known += [f"scatter between sources {100 * law.scatter:.0f} %"] if np.isfinite(law.scatter) else []
    known += ["an estimate from a data sheet"] if found.estimate else []
    stable = stability_statement(law.model, law.constants())[1]
    return [f"{found.name}: {law.model}, {constants}", f"  {', '.join(known)}", f"  {stable}", f"  {law.source}"]


def picture(path: str | Path, name: str | None = None) -> Path:
    """Draw the curves of a pull of all silicones, or of one preset; the path is returned.

    Raises
    ------
    InputError
        The folder or the preset does not exist.
    """
    from matplotlib.figure import Figure

    path = checked_target(path, ".png", ".pdf", ".svg")
    if name is not None:
        materials.get(name)
    shown = [p for p in materials.presets() if name in (None, p.name)]
    figure = Figure(figsize=(8.0, 8.0), layout="constrained")
    axis = figure.subplots()
    ends = []
    for found in shown:
        law = _law(found)
        stretch = np.linspace(1.0, law.max_stretch if np.isfinite(law.max_stretch) else DEFAULT_MAX_STRETCH, 60)[1:]
        row = find_model(law.model).row(law.constants())
        stress = nominal_stress(row, "uniaxial", stretch) / 1e3
        axis.plot(stretch, stress, "--" if found.estimate else "-", linewidth=1.3)
        ends.append((float(np.log10(stress[-1])), float(stretch[-1]), found.name))
    axis.set(xlabel="stretch", ylabel="nominal stress of a pull [kPa]", yscale="log", xlim=(1.0, 2.45))
    _name_curves(axis, sorted(ends))
    axis.set_title("presets; dashed: estimated from a data sheet")
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    return path


def _name_curves(axis: object, ends: list[tuple[float, float, str]]) -> None:
    """Write the names beside the ends of their curves, apart by the height of a line."""
    apart = 0.065  # decades of stress of a line of text
    height = -np.inf
    for level, stretch, name in ends:
        height = max(level, height + apart)
        axis.annotate(  # type: ignore[attr-defined]
            name, (stretch, 10.0**level), (2.06, 10.0**height), fontsize=7, va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "gray"},
        )  # fmt: skip


def _row(found: Preset) -> str:
    law = _law(found)
    reach = f"{law.max_stretch:g}" if np.isfinite(law.max_stretch) else NOT_TOLD
    scatter = f"{100 * law.scatter:.0f} %" if np.isfinite(law.scatter) else NOT_TOLD
    source = law.source.split(";")[0].split(", database")[0]
    return (
        f"{found.name:26s} {found.shore:>6s} {law.shear_modulus / 1e3:9.4g} {reach:>10s} {scatter:>12s}  {law.model}, "
        f"{'estimate: ' if found.estimate else ''}{source}{f' (changed: {found.notice})' if found.notice else ''}"
    )


def _law(found: Preset) -> Hyperelastic:
    assert isinstance(found.material, Hyperelastic)
    return found.material
