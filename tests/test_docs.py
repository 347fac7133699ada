"""The pages of docs/: their Python runs page by page, and the site builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {
    page.name: blocks
    for page in sorted((ROOT / "docs").glob("*.md"))
    if (blocks := re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M))
}


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": page}
    for block in EXAMPLES[page]:
        exec(compile(block, page, "exec"), names)


def test_the_site_builds_without_a_warning(tmp_path):
    """Every link and every reference resolves; the tables of keys, options and statuses are read from the code."""
    pytest.importorskip("sphinx", reason="sphinx is not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pressure_kpa" in (tmp_path / "reference" / "actuation-file.html").read_text()
