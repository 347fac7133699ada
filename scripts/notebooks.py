"""Runs the tutorials of docs/, puts what they print and draw into their pages, and writes each as a notebook.

    python scripts/notebooks.py [PAGE ...]        # default: every page that has a notebook

A block of ```text after a block of ```python is what the latter prints. Pictures that a page shows from `pictures/PAGE/` are
those that its blocks write. Notebooks hold the same text, code, outputs and pictures (docs/notebooks/PAGE.ipynb).
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from PIL import Image

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("cad-to-finger", "casting", "grip")
WIDTH = 900  # pixels of a picture on a page
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```\n", re.S | re.M)
PICTURE = re.compile(r"^!\[[^]]*\]\(pictures/[^)]*\)\n\n?", re.M)


def parts_of(text: str) -> list[tuple[str, str]]:
    """Parts of a page in their order: ("text", prose), ("python", code), ("output", what the code prints)."""
    parts, at = [], 0
    for found in BLOCK.finditer(text):
        if text[at : found.start()].strip():
            parts.append(("text", text[at : found.start()]))
        is_output = found[1] == "text" and parts and parts[-1][0] == "python"
        parts.append(("output" if is_output else "python" if found[1] == "python" else "text", found[2]))
        at = found.end()
    return [*parts, ("text", text[at:])] if text[at:].strip() else parts


def cells_of(text: str) -> list[tuple[str, str]]:
    """Cells of a page's notebook: prose without its pictures, and code."""
    return [
        ("markdown" if kind == "text" else "code", PICTURE.sub("", part).strip())
        for kind, part in parts_of(text)
        if kind != "output" and PICTURE.sub("", part).strip()
    ]


def run(page: str, code: list[str]) -> list[tuple[str, list[bytes]]]:
    """What each block of code prints, and the pictures that it writes, small; they are kept in docs/pictures."""
    kept, out, names = DOCS / "pictures" / page, [], {"__name__": page}
    kept.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            for block in code:
                known, said = set(Path().glob("*")), io.StringIO()
                with contextlib.redirect_stdout(said):
                    exec(compile(block, page, "exec"), names)
                pictures = []
                for path in sorted(set(Path().glob("*.png")) - known):
                    with Image.open(path) as image:
                        small = image.convert("RGB")
                        small.thumbnail((WIDTH, WIDTH))
                        small.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(kept / path.name, optimize=True)
                    pictures.append((kept / path.name).read_bytes())
                out.append((said.getvalue(), pictures))
        finally:
            os.chdir(before)
    return out


def cell(kind: str, number: int, text: str, said: str = "", pictures: list[bytes] | None = None) -> dict[str, Any]:
    """A cell of a notebook, format 4.5."""
    made: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(True)}
    if kind == "code":
        outputs: list[dict[str, Any]] = []
        if said:
            outputs.append({"output_type": "stream", "name": "stdout", "text": said.splitlines(True)})
        for picture in pictures or []:
            data = {"image/png": base64.b64encode(picture).decode()}
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        made |= {"execution_count": None, "outputs": outputs}
    return made


def write(page: str) -> None:
    """Run a page, and write it and its notebook."""
    path = DOCS / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    results = iter(run(page, [part for kind, part in parts_of(text) if kind == "python"]))
    out, cells, at, said = [], [], 0, ""
    for found in BLOCK.finditer(text):
        prose = text[at : found.start()]
        is_output = found[1] == "text" and not prose.strip() and bool(out)
        out.append(prose)
        if found[1] == "python":
            said, pictures = next(results)
            cells.append((found[2].strip(), said, pictures))
        out.append(f"```{found[1]}\n{said if is_output else found[2]}```\n")
        at = found.end()
    page_text = "".join([*out, text[at:]])
    path.write_text(page_text, encoding="utf-8")
    code = iter(cells)
    made = [
        cell(kind, i, part, *next(code)[1:]) if kind == "code" else cell(kind, i, part)
        for i, (kind, part) in enumerate(cells_of(page_text))
    ]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    book = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    (DOCS / "notebooks").mkdir(exist_ok=True)
    (DOCS / "notebooks" / f"{page}.ipynb").write_text(json.dumps(book, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        write(name)
