"""`geosim sweep` and `geosim optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from geosim.apps.study.sampling import read_cell
from geosim.errors import InputError
from geosim.resources import read_toml

if TYPE_CHECKING:
    import pandas


def report(name: str, study: Path, options: dict[str, Any]) -> int:
    """Run `geosim.sweep` or `geosim.optimize`, and say what came of it; return the exit status."""
    import geosim

    if options["resume"] and options["force"]:
        raise click.UsageError("--resume keeps what is solved and --force removes it; give one of them")
    if "kind" in read_toml(study, "study file"):
        raise InputError(
            f'{study} is a robot file; write a study file beside it with robot = "{study.name}", [vary] and [measures]'
        )
    out = options.pop("out") or Path(f"geosim-{study.stem}{'-at' if 'at' in options else ''}")
    interrupted_exit_status = 130  # exit status, 128 + SIGINT
    try:
        table = getattr(geosim, name)(study, out=out, progress=True, **options)
    except KeyboardInterrupt:
        click.echo(f"geosim: interrupted; what is done is in {out}, go on with --resume", err=True)
        return interrupted_exit_status
    for line in summary(table):
        click.echo(line)
    click.echo(f"wrote table.csv, table.parquet, report.html and runs to {out}")
    return 0


def design_of(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return the design that texts like wall_mm=1.8 say.

    Raises
    ------
    click.UsageError
        One has no value.
    """
    out: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not value:
            raise click.UsageError(f"--at {text}: write KEY=VALUE, like wall_mm=1.8")
        out[key] = read_cell(value)
    return out


def summary(table: pandas.DataFrame) -> list[str]:
    """How the designs ended, with the first reason of each kind, and the best where there is one."""
    counts = table["status"].value_counts()
    lines = [f"{len(table)} designs: {', '.join(f'{n} {status}' for status, n in counts.items())}"]
    for status in counts.index.drop("CONVERGED", errors="ignore"):
        lines.append(f"  {status}: {table['message'][table['status'] == status].iloc[0]}")
    # Columns of a table that are not printed, and how many rows are.
    unprinted_columns, printed_rows = ("status", "message", "seconds", "memory_mb"), 10
    shown = table.drop(columns=[*unprinted_columns, "pareto"], errors="ignore")
    if "pareto" in table and table["pareto"].any():
        lines += [
            "best designs (no other is as good in every goal and better in one):",
            shown[table["pareto"]].head(printed_rows).to_string(index=False),
        ]
    elif "pareto" not in table:
        reached = shown[table["status"] == "CONVERGED"]
        more = [f"and {len(reached) - printed_rows} more in table.csv"] if len(reached) > printed_rows else []
        lines += [*([reached.head(printed_rows).to_string(index=False)] if len(reached) else []), *more]
    return lines
