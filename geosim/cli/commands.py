"""The command line: the commands of the core; those of applications stand in `geosim.cli.applications`.

Exit status: 0; 1 for an input error (nothing written) or a solve that stopped early (complete files); 2 for wrong arguments;
130 when interrupted (Ctrl-C, SIGTERM). Errors are one line on stderr. Each command imports the modules that it needs, so that
`geosim --help` is immediate.
"""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import geosim
from geosim.cli.demos import DEMOS, FIRST_DEMO, demo_list
from geosim.cli.generate import generate
from geosim.cli.starting import explain, new, rerun
from geosim.cli.wording import Numbers, in_options
from geosim.entries import entries
from geosim.errors import GeosimError, GeosimWarning, InputError, one_line

if TYPE_CHECKING:
    from geosim.model.actuation import Inflation


COMMANDS = "geosim.commands"


class _Commands(click.Group):
    """A group of commands whose failures are one line on stderr and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, those of entry points included."""
        return sorted({*self.commands, *entries(COMMANDS, self.commands)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported if it is an entry point."""
        if cmd_name in self.commands or (entry := entries(COMMANDS, self.commands).get(cmd_name)) is None:
            return self.commands.get(cmd_name)
        found = entry.load()
        if found is None or isinstance(found, click.Command):
            return found
        entry.skipped(f"{type(found).__name__} is no click command")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line a command, and import none."""
        found = entries(COMMANDS, self.commands)
        room = formatter.width - 6 - max(map(len, [*self.commands, *found]))  # of a line beside the name
        unread = {name: click.Command(name, help=entry.summary) for name, entry in found.items()}
        rows = {name: command.get_short_help_str(room) for name, command in {**self.commands, **unread}.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples below the commands."""
        _write_examples(
            formatter,
            ("geosim demo", "geosim info my_robot/robot.toml", "geosim solve my_robot/robot.toml --volume-ratio 1.5,2"),
        )

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        if standalone_mode:
            # a stop by the system keeps the frames reached, too; Windows has no SIGHUP, and nohup ignores it
            for stop in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
                if signal.getsignal(stop) is not signal.SIG_IGN:
                    signal.signal(stop, signal.default_int_handler)
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, io.TextIOWrapper):
                    stream.reconfigure(
                        errors="backslashreplace"
                    )  # a terminal that cannot show a name still gets the rest
            sys.exit(self._status(*args, **kwargs))
        return self._status(*args, **kwargs)

    def _status(self, *args: Any, **kwargs: Any) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("always", GeosimWarning)
            warnings.showwarning = _show_warning
            try:
                return click.Group.main(self, *args, **{**kwargs, "standalone_mode": False}) or 0
            except click.UsageError as error:
                command = error.ctx.command_path if error.ctx else "geosim"
                return _fail(f"{error.format_message()} (see {command} --help)", 2)
            except click.ClickException as error:
                return _fail(error.format_message(), error.exit_code)
            except (click.Abort, KeyboardInterrupt):
                return _fail("interrupted; nothing was written", 130)
            except (OSError, GeosimError, MemoryError) as error:
                return _fail(_told(error), 1)
            except Exception as error:  # the last line of defence: a user gets a line, a developer the traceback
                if os.environ.get("GEOSIM_TRACEBACK"):
                    raise
                return _fail(
                    f"unexpected {type(error).__name__}: {error}; this is a fault of geosim, please report it "
                    f"(GEOSIM_TRACEBACK=1 shows where)",
                    1,
                )


@contextmanager
def refused(hint: str, param: Any = None, ctx: Any = None) -> Iterator[None]:
    """Say that a value of an option is wrong where an `InputError` says so."""
    try:
        yield
    except InputError as error:
        raise click.BadParameter(str(error), ctx, param, hint or None) from None


def _told(error: Exception) -> str:
    """Say what is wrong where no fault of geosim is."""
    if isinstance(error, OSError):  # a full disk, a folder that is gone
        return f"{error.filename or 'system'}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        said = f" ({error})" if str(error) else ""
        return f"out of memory{said}; use a coarser mesh (max_edge) or element = 'p1'"
    return str(error)


def _fail(message: str, status: int) -> int:
    click.echo(f"geosim: {one_line(message)}", err=True)
    return status


def _show_warning(message: Any, category: Any, *where: Any, **more: Any) -> None:
    if issubclass(category, GeosimWarning):
        click.echo(f"note: {message}", err=True)


class Example(click.Command):
    """A command whose help ends with examples, line by line."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it refuses is said in its options."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise InputError(in_options(str(error), self)) from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples below the options."""
        _write_examples(formatter, self.examples)


def _write_examples(formatter: click.HelpFormatter, examples: tuple[str, ...]) -> None:
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"  {line}\n")


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(geosim.__version__, prog_name="geosim")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Predict the shape of soft robots."""
    _find_room_for_matplotlib()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _find_room_for_matplotlib() -> None:
    """Give matplotlib a folder beside the kernels where no home can be written, so that it has nothing to say about that."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~")
    if "MPLCONFIGDIR" in os.environ or os.access(home, os.W_OK):
        return
    from geosim.kernels import cache_folder

    if (folder := cache_folder()) is not None:
        os.environ["MPLCONFIGDIR"] = str(folder / "matplotlib")


for _command in (generate, new, rerun, explain):
    main.add_command(_command)


# --- values of options ---------------------------------------------------------------------------------------------


class _Steps(click.ParamType[Any]):
    """Commas separate steps, colons chambers: 1.5:1,2:1."""

    name = "steps"

    def __init__(self, key: str, factor: float = 1.0) -> None:
        self.key, self.factor = key, factor

    def convert(self, value: Any, param: Any, ctx: Any) -> Inflation:
        from geosim.files.messages import saying
        from geosim.model.actuation import Inflation

        try:
            rows = [[float(number) for number in step.split(":")] for step in str(value).split(",")]
        except ValueError:
            self.fail(
                f"{value!r} is not numbers; commas separate steps, colons chambers: 1.5,2 or 1.5:1,2:1", param, ctx
            )
        if len({len(row) for row in rows}) > 1:
            self.fail(
                f"{value!r} has steps of different length; give every step as many chambers: 1.5:1,2:1", param, ctx
            )
        if not any(number == number for row in rows for number in row):
            self.fail(f"{value!r} prescribes nothing: nan leaves a chamber open to the air", param, ctx)
        with refused("", param, ctx), saying("kPa"):
            given: dict[str, Any] = {self.key: [[number * self.factor for number in row] for row in rows]}
            return Inflation(**given)


OUT_OPTION = click.option("--out", type=click.Path(path_type=Path), help="Folder to write; default ./geosim-NAME.")
FORCE_OPTION = click.option("--force", is_flag=True, help="Replace what is there already.")
ROBOT_PATH = click.Path(path_type=Path)
OPEN_UNIT_INTERVAL = click.FloatRange(0, 1, min_open=True, max_open=True)


# --- commands ------------------------------------------------------------------------------------------------------


@main.command(cls=Example, examples=("geosim demo", "geosim demo sphere --out ball"))
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List the demonstrations with their CPU seconds and end.")
@OUT_OPTION
@FORCE_OPTION
def demo(name: str | None, listed: bool, out: Path | None, force: bool) -> int:
    """Solve a bundled robot (default: inflate the PneuNet finger): mesh, solve, save, print a table."""
    from geosim.cli import running

    if listed:
        click.echo(demo_list())
        return 0
    if name is None:
        click.echo(f"showing {FIRST_DEMO}; others: {', '.join(n for n in DEMOS if n != FIRST_DEMO)}")
    name = FIRST_DEMO if name is None else name
    if name not in DEMOS:
        from geosim.arguments import suggestion

        raise click.UsageError(f"no demo is called {name!r}{suggestion(name, DEMOS)}; choose one of {', '.join(DEMOS)}")
    target = out or Path(f"geosim-{name}")
    force = force or running.shows_demo(target, name)
    running.check_folder(target, force)
    folder = running.resource("meshes") / name
    folder = folder / "demo" if (folder / "demo").is_dir() else folder  # a smaller robot, where the whole takes minutes
    if not (folder / "robot.toml").is_file():
        from geosim.cli.rod_cases import CASES

        case: Any = CASES[name]()  # type: ignore[operator]
        running.begin()
        return running.solved(case.arguments(), target, force, demo=name)
    robot, environment, solver = running.problem(folder / "robot.toml", foretold=False)
    ratios = DEMOS[name].ratios
    actuation = running.Inflation(volume_ratio=ratios) if ratios else running.read_command(folder / "robot.toml", robot)
    problem = {"robot": robot, "actuation": actuation, "environment": environment, "solver": solver}
    return running.solved(problem, target, force, demo=name)


@main.command(
    cls=Example,
    examples=(
        "geosim solve robot.toml --volume-ratio 1.5,2,3",
        "geosim solve robot.toml --pressure-kpa 5,10 --gravity 0,0,-9.81 --out hanging",
        "geosim solve two_chambers.toml --volume-ratio 1.5:1,2:1",
        "geosim solve robot.toml --target bend_angle_deg=90",
        "geosim solve rods.toml --actuation more.toml --from first/result.npz --out more",
    ),
)
@click.argument("robot", type=ROBOT_PATH)
@click.option("--volume-ratio", type=_Steps("volume_ratio"), help="V/V0 of every step, e.g. 1.5,2 or 1.5:1,2:1.")
@click.option("--pressure-kpa", type=_Steps("pressure", 1e3), help="Gauge pressure of every step [kPa], e.g. 5,10.")
@click.option(
    "--actuation",
    type=click.Path(path_type=Path),
    help="Actuation file (TOML), or a table of natural curvatures (CSV, XLSX).",
)
@click.option("--target", "goals", multiple=True, help="Find the volumes for bend_angle_deg=90, pressure_kpa_1=5, ...")
@click.option(
    "--solver", "method", type=click.Choice(["energy", "projective", "motion"]), help="Default: that of the robot."
)
@click.option("--element", type=click.Choice(["p2", "p1"]), help="p2 is accurate (default), p1 a preview.")
@click.option("--material", help="Preset, or any path of a material file, in place of that of the robot file.")
@click.option(
    "--gravity",
    type=Numbers("0,0,-9.81", three=True),
    metavar="X,Y,Z",
    help="[m/s^2], e.g. 0,0,-9.81; replaces that of the file.",
)
@click.option("--error-bars", is_flag=True, help="Say how far off tip, bend angle and pressures may be.")
@click.option(
    "--accuracy", type=OPEN_UNIT_INTERVAL, help="Refine until the tip's bar is this share of its way, e.g. 0.02."
)
@click.option("--preview", is_flag=True, help="The coarsest mesh that keeps the geometry: bodies given as surfaces.")
@click.option("--rescue", is_flag=True, help="Repair surfaces as with rescue = true, and say what that changes.")
@click.option("--threads", type=click.IntRange(1), help="Of a factorisation; default the cores.")
@click.option(
    "--max-seconds",
    type=click.FloatRange(0, min_open=True),
    help="End a command that takes longer, with what was reached.",
)
@click.option(
    "--film", type=click.Path(path_type=Path), help="Film from rest to the last frame, three seconds, .mp4 or .gif."
)
@click.option(
    "--from", "before", type=click.Path(path_type=Path), help="Go on from a result.npz (rods, shells, snakes)."
)
@OUT_OPTION
@FORCE_OPTION
def solve(
    robot: Path,
    volume_ratio: Any,
    pressure_kpa: Any,
    actuation: Path | None,
    goals: tuple[str, ...],
    material: str | None,
    gravity: tuple[float, ...] | None,
    out: Path | None,
    force: bool,
    **options: Any,
) -> int:
    """Solve a robot file and write result, pictures and table."""
    from geosim.cli import running

    driven = {"--volume-ratio": volume_ratio, "--pressure-kpa": pressure_kpa}
    driven |= {"--actuation": actuation, "--target": goals}
    option = _only_one(driven)
    target = out or Path(f"geosim-{robot.resolve().parent.name if robot.stem == 'robot' else robot.stem}")
    film = None if options["film"] is None else running.checked_film(options["film"])
    running.check_given(robot, actuation, material, goals)
    changed = {key: options[key] for key in ("element", "threads", "max_seconds")}
    bars = {"--error-bars": options["error_bars"], "--accuracy": options["accuracy"]}
    running.check_options(robot, options["method"], changed, bars)
    running.check_folder(target, force)
    initial = None if options["before"] is None else running.load_result(options["before"])
    how = {key: options[key] for key in ("preview", "rescue", "max_seconds")}
    body, environment, solver = running.problem(robot, **how)
    if material is not None:
        with refused("--material"):
            body = running.made_of(body, material)
    solver = running.default_solver(body) if solver is None else solver
    solver = running.chosen_solver(solver, options["method"], changed, bars)
    if gravity is not None:
        with refused("--gravity"):
            environment = dataclasses.replace(environment, gravity=gravity)
    if inflation := volume_ratio or pressure_kpa:
        with refused(option), running.saying("kPa"):
            inflation.targets(0, body.chambers)
        chosen = inflation
    elif goals:
        chosen = running.sought(body, goals, environment, solver)
    else:
        chosen = running.other_actuation(body, actuation, robot)
    return running.solved(
        {"robot": body, "actuation": chosen, "environment": environment, "solver": solver},
        target,
        force,
        film=film,
        error_bars=options["error_bars"],
        accuracy=options["accuracy"],
        initial=initial,
        file=robot,
    )


def _only_one(driven: dict[str, Any]) -> str:
    """Return which option drives a robot, "" for none.

    Raises
    ------
    click.UsageError
        Several are given.
    """
    given = [name for name, value in driven.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other; an actuation file can hold both")
    return "".join(given)


@main.command(
    cls=Example,
    examples=(
        "geosim info my_robot/robot.toml --picture rest.png",
        "geosim info my_robot/robot.toml --rescue",
        "geosim info --system",
    ),
)
@click.argument("robot", type=ROBOT_PATH, required=False)
@click.option("--system", is_flag=True, help="Versions, factoriser and threads of this installation.")
@click.option("--rescue", is_flag=True, help="Repair its surfaces as with rescue = true, and say what that changes.")
@click.option("--picture", type=click.Path(path_type=Path), help="PNG to write of the robot at rest.")
def info(robot: Path | None, system: bool, rescue: bool, picture: Path | None) -> None:
    """Say what a robot file holds, or what this installation is."""
    if robot is None and not system:
        raise click.UsageError("name a robot file, or give --system")
    from geosim.cli import describing

    if robot is None and picture is not None:
        raise click.UsageError("name a robot file for --picture")
    for rows in ([describing.system()] if system else []) + (
        [describing.robot(robot, rescue, picture)] if robot else []
    ):
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            click.echo(f"{name.ljust(width)}  {value}")
