"""The pages of docs/: their Python runs page by page, and the site builds without a warning."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from apps.study.planted import solve_here

import geosim
from geosim.apps.study import schema as study_schema
from geosim.collision.shapes import KINDS
from geosim.files import schema
from geosim.files.actuation import actuation_kinds, load_actuation

ROOT = Path(__file__).resolve().parents[1]
OBSTACLE_KEYS = {key for kind in KINDS.values() for key in kind.keys}
EXAMPLES = {
    page.name: blocks
    for page in sorted((ROOT / "docs").glob("*.md"))
    if (blocks := re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M))
}

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}
GALLERY = sorted((ROOT / "docs" / "gallery").glob("*.py"))
EXTRAS = {
    "torch.md": ("torch", "jax"),
    "simulators.md": ("mujoco", "pxr"),
    "pick.md": ("mujoco",),
}  # page -> modules without which it is skipped


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in EXAMPLES if Path(page).stem not in NOTEBOOKS])
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    for name in EXTRAS.get(page, ()):
        pytest.importorskip(name, reason=f"{page} needs {name}")
    monkeypatch.chdir(tmp_path)
    solve_here(monkeypatch)
    names: dict = {"__name__": page}
    for block in EXAMPLES[page]:
        exec(compile(block, page, "exec"), names)


def test_a_notebook_is_its_page(monkeypatch):
    """The same prose and code in the same order; every cell of code that prints or draws has its output."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from notebooks import PAGES, cells_of

    assert set(NOTEBOOKS) == set(PAGES)
    for name, path in NOTEBOOKS.items():
        book = json.loads(path.read_text(encoding="utf-8"))
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]
        assert cells == cells_of((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"))
        kinds = {output["output_type"] for cell in book["cells"] for output in cell.get("outputs", [])}
        assert kinds == {"stream", "display_data"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": name}
    for cell in json.loads(NOTEBOOKS[name].read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), name, "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_script_of_the_gallery_runs_and_its_fact_holds(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solve_here(monkeypatch)
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 40
    assert "\nassert " in text
    if path.stem != "twiner":  # test_shipped_robots.py runs it, and asks more of its result
        exec(compile(text, path, "exec"), {"__name__": path.stem})


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path, monkeypatch):
    """Every link and every reference resolves; the tables of keys, options and statuses are read from the code.

    The scripts of the gallery have run above.
    """
    pytest.importorskip("sphinx", reason="sphinx is not installed: pip install '.[docs]'")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-D",
        "plot_gallery=0",
        "-D",
        "html_theme=basic",  # the navigation of the theme that is published takes a third of the time
        str(ROOT / "docs"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pressure_kpa" in (tmp_path / "reference" / "actuation-file.html").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from publish_site import foreign

    pages = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".css")]
    assert [path.name for path in pages if foreign(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://a.example/x.js"></script>', True),
        ("<link href='//a.example/f.css' rel='stylesheet'>", True),
        ('<link rel="preconnect" href="https://a.example">', True),
        ("<style>@font-face { src: url(https://a.example/f.woff2) }</style>", True),
        ('<img alt="" src="//a.example/x.png">', True),
        (
            '<a href="https://a.example">elsewhere</a><link rel="stylesheet" href="static/site.css"><img src="x.png">',
            False,
        ),
        ('<link rel="canonical" href="https://a.example/page.html">', False),
    ],
)
def test_a_page_that_loads_something_from_elsewhere_is_found(text, loads, monkeypatch):
    """A link that a reader may follow is none of it."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from publish_site import foreign

    assert bool(foreign(text)) == loads


def test_the_examples_of_all_actuations_are_read(tmp_path, monkeypatch):
    """What the reference shows of each kind is a file that can be read, and no kind is without one."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from tables import ACTUATIONS

    assert ACTUATIONS.keys() == actuation_kinds().keys()
    for name, text in ACTUATIONS.items():
        (tmp_path / "act.toml").write_text(f"[{name}]\n{text}\n")
        assert type(load_actuation(tmp_path / "act.toml")).__name__.lower() == name.replace("_", "")


def test_every_key_of_a_study_file_says_what_it_means():
    tables = [
        kind
        for kind in vars(study_schema).values()
        if isinstance(kind, type) and kind.__module__ == study_schema.__name__
    ]
    assert len(tables) == 8
    for table in tables:
        for name, field in table.model_fields.items():
            assert field.description, f"{table.__name__}.{name}"
            for example in field.examples or []:
                tomllib.loads(f"{name} = {example}")


def test_every_key_of_a_robot_file_says_what_it_means():
    """A meaning for each, and for all that is no table an example that TOML reads."""
    tables = [kind for kind in vars(schema).values() if isinstance(kind, type) and issubclass(kind, schema.Table)]
    assert len(tables) > 15
    for table in tables:
        for name, field in table.model_fields.items():
            if name not in OBSTACLE_KEYS or table is schema.RigidGroupTable:
                assert field.description, f"{table.__name__}.{name}"
            for example in field.examples or []:
                tomllib.loads(f"{name} = {example}")


def test_every_public_name_has_an_entry_in_the_reference(tmp_path, monkeypatch):
    """Under the name that a user imports; a module lists its members."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from tables import write_reference

    write_reference(tmp_path)
    text = "\n".join(page.read_text(encoding="utf-8") for page in tmp_path.glob("*.md"))
    entries = re.findall(r"^\.\. (?:auto\w+|py:data):: geosim\.(\w+)$", text, re.M)
    assert sorted(entries) == sorted(geosim.__all__)


def test_every_field_of_a_public_class_is_explained_in_words():
    classes = [kind for kind in map(geosim.__getattr__, geosim.__all__[1:]) if dataclasses.is_dataclass(kind)]
    assert len(classes) > 40
    for kind in classes:
        said = " ".join(base.__doc__ or "" for base in kind.__mro__)
        for field in dataclasses.fields(kind):
            words = rf"\b({field.name}|{field.name.replace('_', ' ')})\b"
            assert field.name.startswith("_") or re.search(words, said), f"{kind.__name__}.{field.name}"
