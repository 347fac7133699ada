"""A page in a real browser shows a robot, says what it shows, and saves what it solved; every control: see benchmarks."""

from __future__ import annotations

import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'geosim[studio]'")
pytest.importorskip("websockets", reason="websockets is not installed: pip install 'geosim[studio]'")
pytest.importorskip("tomli_w", reason="tomli-w is not installed: pip install 'geosim[studio]'")

from apps.studio.chromium import CHROMIUM, Browser, saves_what_it_shows

from geosim.apps.studio.live import problem_files
from geosim.apps.studio.scene import of_design

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


@pytest.mark.slow
def test_a_turned_knob_is_solved_shown_and_saved_as_it_is_solved(tmp_path):
    small = {"chambers": 1, "pressure_kpa:0": 2.0, "steps": 1, "mesh": "edges", "max_edge_mm": 20.0}
    problem_files(of_design("pneunet", small), tmp_path / "given")
    command = [sys.executable, "-m", "geosim", "studio", "given/robot.toml", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    page = Browser()
    try:
        address = process.stdout.readline().strip()
        page.open(address)
        page.until("shown !== null && shown.level !== 'rest'")
        page.run("(() => { const n = $('knob-wall_mm-number'); n.value = 2.2; n.onchange(); })()")
        converged = "shown.number === scene.number && $('label').textContent.startsWith('converged')"
        page.until(f"scene.knobs.find((k) => k.key === 'wall_mm').now === 2.2 && {converged}")
        saves_what_it_shows(page, tmp_path)
        assert page.console == []
        own = urlsplit(address).netloc
        assert {urlsplit(r).netloc for r in page.requests if not r.startswith(("data:", "blob:"))} == {own}
    finally:
        page.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
