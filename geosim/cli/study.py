"""`geosim sweep` and `geosim optimize`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas

__all__ = ["report"]

INTERRUPTED = 130  # exit status, 128 + SIGINT


def report(name: str, study: Path, options: dict[str, Any]) -> int:
    """Run `geosim.sweep` or `geosim.optimize`, and say what came of it; return the exit status."""
    import geosim

    if options["resume"] and options["force"]:
        raise click.UsageError("--resume keeps what is solved and --force removes it; give one of them")
    out = options.pop("out") or Path(f"geosim-{study.stem}")
    try:
        table = getattr(geosim, name)(study, out=out, progress=sys.stderr.isatty(), **options)
    except KeyboardInterrupt:
        click.echo(f"geosim: interrupted; what is done is in {out}, go on with --resume", err=True)
        return INTERRUPTED
    for line in _lines(table):
        click.echo(line)
    click.echo(f"wrote table.csv, table.parquet, report.html and runs to {out}")
    return 0


def _lines(table: pandas.DataFrame) -> list[str]:
    """How the designs ended, with the first reason of each kind, and the best where there is one."""
    counts = table["status"].value_counts()
    lines = [f"{len(table)} designs: {', '.join(f'{n} {status}' for status, n in counts.items())}"]
    for status in counts.index.drop("CONVERGED", errors="ignore"):
        lines.append(f"  {status}: {table['message'][table['status'] == status].iloc[0]}")
    if "pareto" in table and table["pareto"].any():
        shown = table[table["pareto"]].drop(columns=["status", "message", "seconds", "memory_mb", "pareto"])
        lines += ["not beaten by any other:", shown.head(10).to_string(index=False)]
    return lines
