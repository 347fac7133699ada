"""What `geosim calibrate` does: test files in, lines of text, MATERIAL.toml and a picture out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geosim.calibrate.calibration import fit
from geosim.calibrate.curves import MODES, mode_name
from geosim.calibrate.models import compare_models
from geosim.calibrate.reading import MaterialTest, read_test
from geosim.errors import InputError

__all__ = ["read_specification", "run"]


def read_specification(text: str | Path, **options: Any) -> MaterialTest:
    """Read "TEST.csv" or "TEST.csv:MODE"; options are those of `read_test`.

    Raises
    ------
    InputError
        The mode is unknown, or the file cannot be read as a test.
    """
    text = str(text)
    head, colon, tail = text.rpartition(":")
    if colon and head and not any(sign in tail for sign in "\\/.") and not Path(text).exists():
        return read_test(head, mode_name(tail), **options)
    return read_test(text, **options)


def run(
    tests: Sequence[str | Path],
    model: str = "mooney-rivlin",
    out: str | Path | None = None,
    *,
    source: str = "",
    force: bool = False,
    max_stretch: float | None = None,
    weights: Any = None,
    stable: bool = True,
    window: tuple[float, float] | None = None,
    toe: str | float | None = None,
    confidence: float = 0.95,
    density: float = 1070.0,
    **reading: Any,
) -> list[str]:
    """Calibrate as the command line does.

    Parameters
    ----------
    tests
        "TEST.csv" or "TEST.csv:MODE", MODE one of uniaxial, equibiaxial, pure-shear, compression.
    model
        As in `fit`; "best" takes the recommended one.
    out
        MATERIAL.toml; a picture of the same name with suffix .png is written beside it. None writes nothing.
    source
        Written to the file; default the names of the tests.
    force
        Whether existing files are replaced.
    max_stretch, weights, stable, window, toe, confidence, density
        As in `fit`.
    **reading
        As in `read_test`, for all files alike.

    Returns
    -------
    list of str
        What was detected in every file, the table of models, the calibration, the files written.

    Raises
    ------
    InputError
        The input cannot be used; nothing has been written then.
    """
    if not tests:
        raise InputError(f"calibrate: no test file given; pass TEST.csv or TEST.csv:MODE ({', '.join(MODES)})")
    path = None if out is None else Path(out)
    if path is not None:
        if path.suffix.lower() != ".toml":
            raise InputError(f"{path}: the material file ends in .toml")
        if not path.parent.is_dir():
            raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
        taken = [p for p in (path, path.with_suffix(".png")) if p.exists()]
        if taken and not force:
            raise InputError(f"{taken[0]} exists already; choose another --out or pass --force")
    used = [read_specification(t, **reading) for t in tests]
    lines = []
    for test in used:
        lines += [f"{test.name}: {test.mode}, {len(test.stretch)} samples", *(f"  {note}" for note in test.notes)]
    options: dict[str, Any] = dict(
        max_stretch=max_stretch,
        weights=weights,
        stable=stable,
        window=window,
        toe=toe,
        confidence=confidence,
        density=density,
    )
    table = compare_models(used, **options)
    chosen = table.recommended if model == "best" else fit(used, model, **options)
    lines += ["", *table.lines(), "", *chosen.lines()]
    if path is not None:
        chosen.save(path, source=source)
        chosen.plot(path.with_suffix(".png"))
        lines += ["", f"written: {path}, {path.with_suffix('.png')}"]
    return lines
