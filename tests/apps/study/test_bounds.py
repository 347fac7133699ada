"""Sizes of studies are bounded, and truth values are no numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import geosim
from geosim import Inflation, InputError, Load, Prescribed
from geosim.apps.study.study import read_study

STUDY = """
design = "pneunet"
material = "ecoflex-00-30"

[vary]
{vary}

[sampling]
{sampling}

[actuation]
pressure_kpa = [10]
"""


@pytest.mark.parametrize(
    ("vary", "sampling"),
    [
        ("wall_mm = { from = 1.0, to = 2.0 }", 'method = "random"\ncount = 20000000'),
        ("wall_mm = { from = 1.0, to = 2.0, steps = 10000000 }", ""),
        ("chambers = { from = 1, to = 2000000000, integer = true }", ""),
        ("wall_mm = { from = 1.0, to = 2.0, steps = 400 }\nheight_mm = { from = 9.0, to = 12.0, steps = 400 }", ""),
    ],
    ids=["count", "steps", "whole numbers", "grid"],
)
def test_a_study_of_too_many_designs_is_refused_before_it_is_drawn(tmp_path, vary, sampling):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(vary=vary, sampling=sampling))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"100000\b|100,000\b"):
        geosim.sweep(path, out=tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 20e6  # a hundred thousand rows take 60 MB, twenty million 12 GB
    tracemalloc.stop()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", [(True, False, True), (True, np.nan, 0.0)])
def test_truth_values_are_no_numbers(value):
    for make in (lambda: Prescribed(np.array([0]), value), lambda: Load.force(np.array([0]), value)):
        with pytest.raises(InputError, match="not an array of numbers"):
            make()
    with pytest.raises(InputError, match="not an array of numbers"):
        Inflation(pressure=[True, False])


LIST = """
design = "pneunet"
material = "ecoflex-00-30"
[sampling]
method = "list"
file = "designs.csv"
[actuation]
pressure_kpa = [10]
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_a_list_of_designs_is_read_in_the_encodings_of_spreadsheets(tmp_path, encoding):
    """Names and numbers are those that were written, whatever the encoding, line ends and delimiter."""
    for delimiter, ends in ((",", "\n"), (";", "\r\n"), ("\t", "\r")):
        rows = [["wall_mm", "height_mm"], ["1.5", "9.25"], ["2.5", "10"]]
        text = ends.join(delimiter.join(row) for row in rows) + ends
        (tmp_path / "designs.csv").write_bytes(text.encode(encoding))
        (tmp_path / "study.toml").write_text(LIST)
        read = read_study(tmp_path / "study.toml")
        assert read.rows == [{"wall_mm": 1.5, "height_mm": 9.25}, {"wall_mm": 2.5, "height_mm": 10}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"wall_mm\n" + b"9" * 6000, "line 2.? wall_mm"),
        (b"wall_mm\n" + b"[" * 5000 + b"1" + b"]" * 5000, "line 2.? wall_mm"),
        (b"wall_mm\n" + b"1" * 200_000, "line 2"),
        (b'wall_mm,height_mm\n1.5,"9\n', "quote is not closed|cannot be parted"),
        (b"wall_mm\n\x00\x01", "binary"),
        (b"\xff\xfew\x00a", "wall_mm|'wa'|UTF-16|at least one design"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b"wall_mm\n1,5\n", r"wall_mm = 1,5 may be 1\.5 or a list"),
        (b"wall_mm;height_mm\n1.5;9;9\n", "3 cells under 2 names"),
        (b"caf\xe9\n1.5\n", "café"),
        (b"", "empty"),
    ],
    ids=["digits", "brackets", "field", "quote", "binary", "wide", "odd", "comma", "ragged", "latin", "empty"],
)
def test_a_list_of_nonsense_is_refused_in_one_line(tmp_path, content, words):
    (tmp_path / "designs.csv").write_bytes(content)
    (tmp_path / "study.toml").write_text(LIST)
    with pytest.raises(InputError, match=words) as caught:
        read_study(tmp_path / "study.toml").rows  # noqa: B018 (they are read when they are asked for)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("name", ["a" * 5000 + ".x", "a\0b.x"])
def test_texts_that_no_file_can_be_called_are_texts(name):
    """Files that tables name go along with a design; what no file can be called is none."""
    tables = {"design": "pneunet", "material": "ecoflex-00-30", "actuation": {"pressure_kpa": [10]}}
    study = read_study(
        {**tables, "vary": {"wall_mm": [1.5]}, "environment": {"obstacles": [{"shape": "mesh", "surface": name}]}}
    )
    assert study.job(study.rows[0]).files == {}
