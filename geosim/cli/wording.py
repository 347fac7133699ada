"""What the library says, in the words of the command line: its arguments are options there."""

from __future__ import annotations

import re

import click

__all__ = ["in_options"]


def in_options(text: str, command: click.Command | None = None) -> str:
    """Return a text that names options of a command where it named arguments: `units= one of` is `--units one of`.

    An argument's unit, as in `area= [m^2]`, goes, since the option's name holds its own: `--area-mm2`. So does the True of a
    flag.
    """
    command = command or click.get_current_context().command
    options = [p for p in command.params if isinstance(p, click.Option)]
    flags = {p.name: max(p.opts, key=len) for p in options}
    alone = "|".join(p.name for p in options if p.is_flag and p.name)
    if alone:
        text = re.sub(rf"\b({alone})=True\b", lambda found: flags[found[1]], text)
    return re.sub(
        r"\b([a-z_]+)=(?: ?\[[^]]+\] ?| )?",
        lambda found: f"{flags[found[1]]} " if found[1] in flags else found[0],
        text,
    )
