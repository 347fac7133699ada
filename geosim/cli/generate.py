"""`geosim generate`: a command for every design, with an option for every dimension."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from geosim.cli.wording import Numbers, meanings

if TYPE_CHECKING:
    from geosim.generate.dimensions import Dimension


FINGER_KEY, DEFAULT_FINGER = "geosim.finger", "pneunet"  # where a call keeps which finger its gripper has; the default


class _Designs(click.Group):
    """A command for every generator, made when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all generators."""
        from geosim.generate import names

        return list(names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a generator."""
        from geosim.generate import ALL_GENERATORS

        if cmd_name not in ALL_GENERATORS:
            from geosim.arguments import suggestion

            hint = suggestion(cmd_name, ALL_GENERATORS)
            ctx.fail(f"no design is called {cmd_name!r}{hint}; choose one of {', '.join(ALL_GENERATORS)}")
        return _command(cmd_name, ALL_GENERATORS[cmd_name], ctx.meta.get(FINGER_KEY, DEFAULT_FINGER))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find which finger is wanted first: its dimensions are options, too."""
        loose = {"ignore_unknown_options": True, "allow_extra_args": True}
        probe = click.Command(
            FINGER_KEY, params=[click.Option(["--finger"])], context_settings=loose, add_help_option=False
        )
        ctx.meta[FINGER_KEY] = (
            probe.make_context(FINGER_KEY, args[1:], resilient_parsing=True).params["finger"] or DEFAULT_FINGER
        )
        return super().resolve_command(ctx, args)


@click.group(cls=_Designs, invoke_without_command=True, options_metavar="", subcommand_metavar="NAME [OPTIONS]")
@click.pass_context
def generate(ctx: click.Context) -> None:
    """Make a robot from a few dimensions: its surfaces or rods, and its robot.toml. Alone: list the designs.

    Example: geosim generate pneunet --chambers 8 --wall-mm 1.8 --channel-mm 2,2 --out finger
    """
    from geosim.generate import ALL_GENERATORS, GENERATORS
    from geosim.generate.dimensions import dimensions

    if ctx.invoked_subcommand is None:
        for name, generator in ALL_GENERATORS.items():
            own = dimensions(generator, GENERATORS[DEFAULT_FINGER]).values()
            options = [f"{_flag(d)} {_shown(d.shown)}" for d in own]
            click.echo(f"{name}  {'  '.join(options)}")


def _flag(dimension: Dimension) -> str:
    return f"--{dimension.key.replace('_', '-')}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(f"{v:g}" for v in value)
    return value if isinstance(value, str) else f"{value:g}"


def _command(name: str, generator: Callable[..., Any], finger: str) -> click.Command:
    """Return the command that makes one design; `finger` is that of a gripper."""
    from geosim.arguments import suggestion
    from geosim.generate import GENERATORS, ROD_GENERATORS
    from geosim.generate.dimensions import dimensions
    from geosim.generate.rods import ROD_MATERIAL

    if finger not in GENERATORS:
        hint = suggestion(finger, GENERATORS)
        raise click.UsageError(f"--finger: no design is called {finger!r}{hint}; choose one of {', '.join(GENERATORS)}")
    known = {d.name: d for d in dimensions(generator, GENERATORS.get(finger)).values()}

    said = meanings(generator) | {f"finger_{name}": text for name, text in meanings(GENERATORS[finger]).items()}
    material, made_of = (ROD_MATERIAL, "rods") if name in ROD_GENERATORS else ("ecoflex-00-30", "body")
    params: list[click.Parameter] = [
        click.Option([_flag(d), d.name], type=_type(d), help=_meaning(d, said[d.name])) for d in known.values()
    ]
    params += [
        click.Option(["--material"], default=material, show_default=True, help=f"Preset of the {made_of}."),
        click.Option(["--out"], type=click.Path(path_type=Path), help=f"Folder to write; default ./geosim-{name}."),
        click.Option(["--force"], is_flag=True, help="Replace the files in a folder that is not empty."),
    ]
    summary = (inspect.getdoc(generator) or name).splitlines()[0]
    return click.Command(name, callback=partial(_make, name, known), params=params, help=summary)


def _make(
    name: str, known: Mapping[str, Dimension], /, *, out: Path | None, material: str, force: bool, **given: Any
) -> None:
    """Make a design of the dimensions that are given, and say what to do with it."""
    from geosim.files.folder import check_folder
    from geosim.files.messages import saying
    from geosim.generate import ROD_GENERATORS, make

    folder = out or Path(f"geosim-{name}")
    check_folder(folder, force)
    with saying("mm"):
        design = make(name, **{key: known[key].si(value) for key, value in given.items() if value is not None})
    files = design.save(folder, material=material)
    click.echo(f"{name}: {', '.join(files)} in {folder}")
    solve = f"next: geosim solve {shlex.quote(str(folder / 'robot.toml'))}"
    if name in ROD_GENERATORS:
        click.echo(f"{len(design.edges)} edges, {len(design.cables)} cables; actuation.toml holds its commands")
        click.echo(f"{solve} --film {name}.gif")
        return
    volumes = ", ".join(f"{float(s.volume) * 1e6:.4g}" for s in design.chambers) or "none"
    click.echo(f"body {float(design.body.volume) * 1e6:.4g} cm^3 with its chambers, chambers {volumes} cm^3")
    click.echo(f"{solve} {'--volume-ratio 1.2' if design.chambers else '--gravity 0,0,-9.81'} --preview")
    click.echo("--preview: the coarsest mesh, for a first look; without it the mesh is fine and a solve takes minutes")


def _meaning(dimension: Dimension, said: str) -> str:
    """What the docstring says of a dimension, whose unit is in the option's name, and the default."""
    text = said.replace(" [m]", "").rstrip(".")
    return text if "default" in text else f"{text}; default {_shown(dimension.shown)}."


def _type(dimension: Dimension) -> Any:
    if dimension.of_each or isinstance(dimension.default, tuple):
        return Numbers("2,2")
    return float if dimension.default is None else type(dimension.default)
