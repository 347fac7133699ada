"""The command `geosim calibrate`: test files in, lines of text, MATERIAL.toml and a picture out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geosim.apps.calibrate.calibration import Calibration
from geosim.apps.calibrate.curves import MODES, mode_name
from geosim.apps.calibrate.cycles import Conditioning, cycle_count, fit_cycles
from geosim.apps.calibrate.models import RECOMMENDED, compare_models, fit
from geosim.apps.calibrate.preparing import prepare_tests
from geosim.apps.calibrate.reading import ReadingOptions, read_test
from geosim.apps.calibrate.samples import MaterialTest
from geosim.apps.calibrate.toe import find_toe
from geosim.arguments import guarded
from geosim.arrays import shown
from geosim.errors import InputError
from geosim.writing import checked_target


def read_specification(text: str | Path, **options: Any) -> MaterialTest:
    """Read "TEST.csv" or "TEST.csv:MODE"; options are as in `read_test`.

    Raises
    ------
    InputError
        The mode is unknown, or the file cannot be read as a test.
    """
    text = str(text)
    head, colon, tail = text.rpartition(":")
    if colon and head and not any(sign in tail for sign in "\\/.") and not os.path.exists(text):
        return read_test(head, mode_name(tail), **options)
    return read_test(text, **options)


@guarded
def run(
    tests: Sequence[str | Path],
    model: str = RECOMMENDED,
    out: str | Path | None = None,
    *,
    source: str = "",
    force: bool = False,
    reading: Mapping[str, Any] | None = None,
    toe: str | float | None = "auto",
    **options: Any,
) -> list[str]:
    """Calibrate as the command line does.

    Parameters
    ----------
    tests
        "TEST.csv" or "TEST.csv:MODE", MODE one of uniaxial, equibiaxial, pure-shear, compression.
    model
        As in `fit`; default the recommended one.
    out
        MATERIAL.toml; a picture of the same name with suffix .png is written beside it. None writes nothing.
    source
        Written to the file; default the names of the tests.
    force
        Whether existing files are replaced.
    reading
        Arguments of `read_test`, for all files alike.
    toe
        "auto", "none", or the slack [mm], also as text; a length needs `gauge_length` among the arguments of `reading`.
    **options
        Arguments of `fit`.

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
    files = [] if out is None else _targets(Path(out), force)
    reading = dict(reading or {})
    if unknown := reading.keys() - {"first_loading", *ReadingOptions.__annotations__}:
        raise InputError(f"calibrate: `reading` has {shown(min(unknown, key=str))}, which is no argument of read_test")
    used = [read_specification(t, **reading) for t in tests]
    raw, used = used, list(prepare_tests(used, _toe(toe, reading.get("gauge_length"))))
    options = {**options, "toe": None}
    lines = []
    for test in used:
        lines += [f"{test.name}: {test.mode}, {len(test.stretch)} samples", *(f"  {note}" for note in test.notes)]
    chosen = fit(used, model, **options)
    lines += ["", *compare_models(used, **options).lines(), "", *chosen.lines()]
    worn = _conditioning(tests, reading, raw[0], chosen) if len(used) == 1 else None
    lines += [] if worn is None else ["", *worn.lines()]
    if files:
        (chosen if worn is None else worn).save(files[0], source=source)
        chosen.plot(files[1])
        lines += ["", f"written: {files[0]}, {files[1]}"]
    return lines


def _conditioning(
    tests: Sequence[str | Path], reading: Mapping[str, Any], first: MaterialTest, chosen: Calibration
) -> Conditioning | None:
    """Return what the cycles of a uniaxial record say, with the law of its first pull; None of a record with fewer than two."""
    record = read_specification(tests[0], **{**reading, "first_loading": False})
    if record.mode != "uniaxial":
        return None
    toe = find_toe(first)
    moved = toe.offset if chosen.tests[0].zero_error == toe.error else 0.0
    stretch, stress = record.stretch - moved, record.nominal_stress - (toe.zero_stress if moved else 0.0)
    if cycle_count(stretch) < 2:
        return None
    found = fit_cycles(stretch, stress, chosen.model, density=chosen.density)
    return dataclasses.replace(found, first=chosen)


def _toe(given: str | float | None, gauge_length: float | None) -> str | float | None:
    """Return a toe as `fit` takes it: a length [mm] becomes a strain."""
    if given is None or given in ("auto", "none"):
        return given
    try:
        length = float(given)
    except ValueError:
        raise InputError(f"calibrate: toe = {given!r}; use auto, none or its length [mm]") from None
    if gauge_length is None:
        raise InputError(f"calibrate: a toe of {length:g} mm needs the rest length; pass gauge_length= [m]")
    return 1e-3 * length / gauge_length


def _targets(path: Path, force: bool) -> list[Path]:
    """Return material file and picture, or refuse a path that cannot be written."""
    files = [checked_target(path, ".toml"), path.with_suffix(".png")]
    taken = next((p for p in files if p.exists()), None)
    if taken and not force:
        raise InputError(f"{taken} exists already; choose another --out or pass --force")
    return files
