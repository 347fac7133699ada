"""Options of the command line and Python arguments: defaults that they share, and messages of the one for the other."""

from __future__ import annotations

import inspect
import re
from typing import Any

import click


class ApiOption(click.Option):
    """An option whose default is that of an argument of the API, which is imported where the default is asked for.

    `of` names the argument, "apps.moulds.making.make:tube"; `unit` is the unit of the option [SI].
    """

    def __init__(self, *args: Any, of: str, unit: float | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **{"show_default": True, **kwargs})
        self.of, self.unit = of, unit

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        """Return the default in the unit of the option."""
        from geosim.model.display import later  # imports NumPy, which help does without

        where, _, name = self.of.partition(":")
        default = inspect.signature(later(where)).parameters[name].default
        return default if self.unit is None else default / self.unit


class Numbers(click.ParamType[Any]):
    """Numbers separated by commas, one or several, or three; one alone is no tuple. Messages show an `example`."""

    name = "numbers"

    def __init__(self, example: str, *, three: bool = False) -> None:
        self.example, self.three = example, three

    def convert(self, value: Any, param: Any, ctx: Any) -> float | tuple[float, ...]:
        """Return the numbers of a text."""
        try:
            numbers = tuple(float(number) for number in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or (self.three and len(numbers) != 3):
            wanted = "three numbers" if self.three else "numbers"
            self.fail(f"{value!r} is not {wanted} separated by commas, for example {self.example}", param, ctx)
        return numbers if len(numbers) > 1 else numbers[0]


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


def meanings(documented: Any) -> dict[str, str]:
    """Return what the docstring of a function or a class says of each parameter; of several in one entry, with their names."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", inspect.getdoc(documented) or "", re.S | re.M
    )
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:(?: {4}.*)?(?:\n|\Z))+)", section[1] if section else "", re.M):
        sentence = " ".join(text.split())
        found |= {name: sentence if name == names else f"{names}: {sentence}" for name in names.split(", ")}
    return found
