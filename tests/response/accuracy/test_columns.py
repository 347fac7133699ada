"""Error bars in summary.csv, in the table, in the caption and in the archive."""

from __future__ import annotations

import csv

import meshio
import numpy as np
from bending import BAR_FILE
from click.testing import CliRunner
from shapes import block

import geosim
from geosim import cli
from geosim.show.picture import title


def test_the_command_line_writes_what_error_bars_says(tmp_path, monkeypatch):
    vertices, tets = block((60.0, 10.0, 10.0), (3, 1, 1))
    meshio.vtu.write(str(tmp_path / "bar.vtu"), meshio.Mesh(vertices, [("tetra", tets)]))
    (tmp_path / "bar.toml").write_text(BAR_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(geosim.Result, "plot", lambda self, path: path.write_bytes(b"png"))
    told = CliRunner().invoke(cli.main, ["solve", "bar.toml", "--gravity", "0,0,-9.81", "--error-bars", "--out", "out"])
    assert told.exit_code == 0, told.output
    (row,) = csv.DictReader((tmp_path / "out" / "summary.csv").open())
    result = geosim.load_result(tmp_path / "out" / "result.npz")
    tip, bend = (geosim.error_bars(result, of) for of in ("tip", "bend_angle"))
    for name, wanted in (
        ("tip_error_mesh", 1e3 * np.linalg.norm(tip.mesh)),
        ("tip_error_material", 1e3 * np.linalg.norm(tip.material)),
        ("bend_angle_error_total", np.degrees(bend.total)),
    ):
        np.testing.assert_allclose(float(row[name]), wanted, rtol=1e-4)
    assert row["pressure_error_mesh"] == "nan"
    assert "bend +- mesh" in told.output
    assert f"\u00b1 {np.degrees(bend.total):.2g}" in title(result, -1) or not result.robot.chambers
    refused = CliRunner().invoke(
        cli.main, ["solve", "bar.toml", "--solver", "projective", "--error-bars", "--out", "no"]
    )
    assert refused.exit_code == 2
    assert "--error-bars" in refused.output
