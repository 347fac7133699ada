"""Write docs/figures.md, the numbers that README.md quotes, from the rows kept in figures.toml: `python benchmarks/figures.py`.

Each row names the command that prints it and the version and commit of geosim that were measured.
`--check` writes nothing and fails if the page is out of date.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "figures.md"
INTRODUCTION = """# Figures

This page is generated: `python benchmarks/figures.py` writes it from `benchmarks/figures.toml`.
Each row names the version and commit of geosim that were measured, and the command that prints the number.
"""


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows])


def page() -> str:
    """Return the text of the page."""
    kept = tomllib.loads((HERE / "figures.toml").read_text(encoding="utf-8"))
    parts = [INTRODUCTION]
    for section in kept.values():
        rows = [[*row["cells"], f"{row['version']}, {row['commit']}", f"`{row['command']}`"] for row in section["rows"]]
        note = f"{section['note']}\n\n" if "note" in section else ""
        parts.append(
            f"## {section['title']}\n\n{note}{table([*section['columns'], 'version, commit', 'command'], rows)}\n"
        )
    return "\n".join(parts)


def main() -> None:
    """Write the page, or say whether it is out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date; write nothing")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE} is out of date: run python benchmarks/figures.py")


if __name__ == "__main__":
    main()
