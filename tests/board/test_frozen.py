"""Predictions are written once, compared only as they were frozen, and scored as said."""

from __future__ import annotations

import csv

import numpy as np
import pytest


def rows(board):
    row = board("frozen").Row
    return [row("robot", 1.0, "", "bend", "rad", 2.0, 1.0, 3.0), row("robot", 2.0, 0.5, "bend", "rad", 4.0, 3.5, 4.5)]


def measured(path, values):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["robot", "load_1", "load_2", "measure", "value"])
        out.writerows(values)
    return path


def test_what_is_frozen_is_scored(board, tmp_path):
    frozen, run = board("frozen"), board("run")
    path = frozen.freeze("one", rows(board), tmp_path / "log.csv")
    assert [r.key for r in frozen.read(path)] == [r.key for r in rows(board)]
    data = measured(tmp_path / "data.csv", [["robot", 1.0, "", "bend", 2.5], ["robot", 2.0, 0.5, "bend", 5.0]])
    found = run.compare("one", data, tmp_path / "log.csv")
    assert (found.pairs, found.coverage) == (2, 0.5)
    assert found.error == pytest.approx(0.2)
    assert found.width == pytest.approx((2.0 / 2.5 + 1.0 / 5.0) / 2)
    assert found.bars == pytest.approx((0.5 + 2.0) / 2)


def test_a_changed_or_unknown_prediction_is_refused(board, tmp_path):
    frozen = board("frozen")
    log = tmp_path / "log.csv"
    path = frozen.freeze("one", rows(board), log)
    with pytest.raises(FileExistsError, match="frozen"):
        frozen.freeze("one", rows(board), log)
    with pytest.raises(ValueError, match="predict before"):
        frozen.entry("two", log)
    path.write_text(path.read_text(encoding="utf-8").replace("4.5", "9.5"), encoding="utf-8")
    with pytest.raises(ValueError, match="not what was frozen"):
        frozen.entry("one", log)


def test_every_prediction_that_is_shipped_is_as_it_was_frozen(board):
    frozen = board("frozen")
    names = sorted(p.stem for p in (frozen.HERE / "predictions").glob("*.csv"))
    assert names
    for name in names:
        line = frozen.entry(name)
        assert len(frozen.read(frozen.HERE / "predictions" / f"{name}.csv")) == int(line["rows"])


def test_an_interval_without_its_value_is_refused(board):
    with pytest.raises(ValueError, match="outside"):
        board("frozen").Row("robot", 1.0, "", "bend", "rad", 4.0, 1.0, 3.0)


def test_every_robot_of_the_board_has_a_prediction_and_a_way_to_make_it(board):
    run, frozen = board("run"), board("frozen")
    for name in run.BLIND:
        assert callable(board(name).predict)
    for name in run.SHOWN:
        assert callable(getattr(board("shown"), name))
    kept = {p.stem for p in (frozen.HERE / "predictions").glob("*.csv")}
    assert kept == {*run.BLIND, *run.SHOWN}


@pytest.mark.parametrize("name", ["pleated", "ribbed"])
def test_a_frozen_prediction_is_what_the_board_still_says(board, name):
    """Quantiles of the same draws, in six digits."""
    frozen = board("frozen")
    rows, _ = board(name).predict(None)
    kept = frozen.read(frozen.HERE / "predictions" / f"{name}.csv")
    assert [r.key for r in rows] == [r.key for r in kept]
    for one, other in zip(rows, kept):
        assert one.value == pytest.approx(other.value, rel=1e-4, abs=1e-9)
        assert one.high == pytest.approx(other.high, rel=1e-4, abs=1e-9)


@pytest.mark.slow
def test_the_curves_that_the_segments_rest_on_are_solved_again(board):
    """Below half of the limit: pressures and curvatures within 1 %, forces within 4 %."""
    segments = board("segments")
    kept = board("segment_predictions").curves()
    assert {name for name, _ in kept} == {"ribbed", "pleated", "cylindrical"}
    assert kept.keys() == segments.GEOMETRIES.keys()
    segment, mu, factor = segments.GEOMETRIES["ribbed", "half"]
    ratios = np.array(segments.RATIOS["ribbed"][:2])
    pressures, bend = segments.solved(segment, ratios, mu, False)
    held, force = segments.solved(segment, ratios, mu, True)
    found = np.stack([pressures / mu, factor * bend, np.interp(pressures, held, force) / bend / mu], axis=1)
    np.testing.assert_allclose(found[:, :2], kept["ribbed", "half"][:2, :2], rtol=0.01)
    np.testing.assert_allclose(found[:, 2], kept["ribbed", "half"][:2, 2], rtol=0.04)
    fitted = board("segment_fitted")
    rubber = segments.geosim.Gent(fitted.MU, 40.0)
    pressures, bend = segments.solved(fitted.geometries()["7"], fitted.RATIOS[:4], fitted.MU, False, rubber=rubber)
    table, grid = fitted.read_curves().table["curvature"], fitted.read_curves().grid["curvature"]
    floor, lock = (int(np.abs(np.asarray(k) - v).argmin()) for k, v in zip(fitted.KINDS, (7.0, 40.0)))
    kind = floor * len(fitted.KINDS[1]) + lock
    np.testing.assert_allclose(
        np.exp(np.interp(np.log(bend), np.log(grid), table[kind])) * fitted.MU, pressures, rtol=0.03
    )


def test_the_table_scores_every_shown_prediction_and_all_together(board, monkeypatch, tmp_path):
    """Two robots, three of five values inside: each robot's own line, one over all values, and one over robots."""
    frozen, run, readers = board("frozen"), board("run"), board("measured")
    log = tmp_path / "log.csv"
    one = rows(board)
    other = [frozen.Row("arm", p, "", "bend", "rad", 2.0, 1.0, 3.0) for p in (1.0, 2.0, 3.0)]
    for name, made in (("one", one), ("other", other)):
        frozen.freeze(name, made, log)
    values = {
        "one": lambda _: iter([(r.robot, r.load_1, r.load_2, r.measure, r.value) for r in one]),
        "other": lambda _: iter([("arm", p, "", "bend", v) for p, v in ((1.0, 2.5), (2.0, 4.0), (3.0, 4.0))]),
    }
    monkeypatch.setattr(readers, "SHOWN", values)
    lines = run.table(tmp_path, log)
    assert [line.split()[0] for line in lines[1:]] == ["one", "other", "all", "each", "each"]
    assert [n in line for n, line in zip(["2 of 2", "1 of 3", "3 of 5", "3 of 5", "1.3 of 2"], lines[1:])] == [True] * 5


def test_each_value_counts_once_by_what_knows_most_of_its_robot(board, monkeypatch, tmp_path):
    """The batch's of two values has one inside; the preset's, though frozen later, counts for the other alone."""
    frozen, run, readers = board("frozen"), board("run"), board("measured")
    log = tmp_path / "log.csv"
    first, second = rows(board)
    off = frozen.Row("robot", 1.0, "", "bend", "rad", 9.0, 8.0, 10.0)
    for name, made in (("batch", [first]), ("preset", [off, second]), ("older", [off])):
        frozen.freeze(name, made, log)
    values = {name: lambda _: iter([("robot", 1.0, "", "bend", 2.0), ("robot", 2.0, 0.5, "bend", 4.0)]) for name in
              ("batch", "preset", "older")}  # fmt: skip
    monkeypatch.setattr(readers, "SHOWN", values)
    monkeypatch.setattr(run, "BATCH", ("batch",))
    line = next(line for line in run.table(tmp_path, log) if line.startswith("each value once"))
    assert "2 of 2" in line
    assert (
        run.rank("tentacle_rubber") > run.rank("tentacle_rods") > run.rank("tentacle_folds")
    )  # by their models' first
    assert run.rank("cylindrical_fitted") > run.rank("cylindrical")
