"""The command line: geosim demo, generate, info, solve, sweep, optimize, calibrate, compare.

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
from geosim.cli.studio import studio
from geosim.cli.wording import in_options
from geosim.errors import GeosimError, GeosimWarning, InputError, one_line

if TYPE_CHECKING:
    from geosim.model.actuation import Inflation


class _OneLineGroup(click.Group):
    """A group of commands whose failures are one line on stderr and an exit status."""

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
            except OSError as error:  # a full disk, a folder that is gone
                return _fail(f"{error.filename or 'system'}: {error.strerror or error}", 1)
            except GeosimError as error:
                return _fail(str(error), 1)
            except MemoryError as error:
                said = f" ({error})" if str(error) else ""
                return _fail(f"out of memory{said}; use a coarser mesh (max_edge) or element = 'p1'", 1)
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


def _fail(message: str, status: int) -> int:
    click.echo(f"geosim: {one_line(message)}", err=True)
    return status


def _show_warning(message: Any, category: Any, *where: Any, **more: Any) -> None:
    if issubclass(category, GeosimWarning):
        click.echo(f"note: {message}", err=True)


class _Example(click.Command):
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


@click.group(cls=_OneLineGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
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


for _command in (generate, new, rerun, explain, studio):
    main.add_command(_command)


# --- values of options ---------------------------------------------------------------------------------------------


class _Steps(click.ParamType[Any]):
    """Commas separate steps, colons chambers: 1.5:1,2:1."""

    name = "steps"

    def __init__(self, key: str, factor: float = 1.0) -> None:
        self.key, self.factor = key, factor

    def convert(self, value: Any, param: Any, ctx: Any) -> Inflation:
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
        with refused("", param, ctx):
            given: dict[str, Any] = {self.key: [[number * self.factor for number in row] for row in rows]}
            return Inflation(**given)


class _Vector(click.ParamType[Any]):
    """Three numbers separated by commas."""

    name = "x,y,z"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        try:
            numbers = tuple(float(v) for v in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != 3:
            self.fail(f"{value!r} is not three numbers separated by commas, for example 0,0,-9.81", param, ctx)
        return numbers


OUT_OPTION = click.option("--out", type=click.Path(path_type=Path), help="Folder to write; default ./geosim-NAME.")
FORCE_OPTION = click.option("--force", is_flag=True, help="Replace what is there already.")
ROBOT_PATH = click.Path(path_type=Path)
OPEN_UNIT_INTERVAL = click.FloatRange(0, 1, min_open=True, max_open=True)


# --- commands ------------------------------------------------------------------------------------------------------


@main.command(cls=_Example, examples=("geosim demo", "geosim demo sphere --out ball"))
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
        raise click.UsageError(f"no demo is called {name!r}; choose one of {', '.join(DEMOS)}")
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
    cls=_Example,
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
@click.option("--actuation", type=click.Path(path_type=Path), help="Actuation file (TOML).")
@click.option("--target", "goals", multiple=True, help="Find the volumes for bend_angle_deg=90, pressure_kpa_1=5, ...")
@click.option("--solver", "method", type=click.Choice(["energy", "projective"]), help="Default: that of the robot.")
@click.option("--element", type=click.Choice(["p2", "p1"]), help="p2 is accurate (default), p1 a preview.")
@click.option("--material", help="Preset, or any path of a material file, in place of that of the robot file.")
@click.option("--gravity", type=_Vector(), help="[m/s^2], e.g. 0,0,-9.81; replaces that of the file.")
@click.option("--error-bars", is_flag=True, help="Say how far off tip, bend angle and pressures may be.")
@click.option(
    "--accuracy", type=OPEN_UNIT_INTERVAL, help="Refine until the tip's bar is this share of its way, e.g. 0.02."
)
@click.option("--preview", is_flag=True, help="The coarsest mesh that keeps the geometry: bodies given as surfaces.")
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

    driven = {
        "--volume-ratio": volume_ratio,
        "--pressure-kpa": pressure_kpa,
        "--actuation": actuation,
        "--target": goals or None,
    }
    given = [name for name, value in driven.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other; an actuation file can hold both")
    target = out or Path(f"geosim-{robot.resolve().parent.name if robot.stem == 'robot' else robot.stem}")
    film = None if options["film"] is None else running.checked_film(options["film"])
    running.check_given(robot, actuation, material, goals)
    running.check_folder(target, force)
    initial = None if options["before"] is None else running.load_result(options["before"])
    body, environment, solver = running.problem(robot, preview=options["preview"], max_seconds=options["max_seconds"])
    if material is not None:
        with refused("--material"):
            body = running.made_of(body, material)
    changed = {key: options[key] for key in ("element", "threads", "max_seconds")}
    solver = running.chosen_solver(body, solver, options["method"], changed)
    if gravity is not None:
        with refused("--gravity"):
            environment = dataclasses.replace(environment, gravity=gravity)
    inflation = volume_ratio or pressure_kpa
    if inflation is not None:
        with refused(given[0]):
            inflation.targets(0, body.chambers)
    chosen = inflation or (
        running.sought(body, goals, environment, solver) if goals else running.other_actuation(body, actuation, robot)
    )
    for key in ("error_bars", "accuracy"):
        if options[key]:
            running.check_bars(solver, f"--{key.replace('_', '-')}")
    return running.solved(
        {"robot": body, "actuation": chosen, "environment": environment, "solver": solver},
        target,
        force,
        film=film,
        error_bars=options["error_bars"],
        accuracy=options["accuracy"],
        initial=initial,
    )


@main.command(
    cls=_Example,
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


@main.command(
    cls=_Example,
    examples=("geosim make my_robot/robot.toml --out parts", "geosim make my_robot/robot.toml --out parts --tube-mm 4"),
)
@click.argument("robot", type=ROBOT_PATH)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the files.")
@click.option("--tube-mm", type=float, default=3.0, show_default=True, help="Outer diameter of the tubes for air.")
@click.option("--least-wall-mm", type=float, default=0.8, show_default=True, help="Thinner walls are named.")
def make(robot: Path, out: Path, tube_mm: float, least_wall_mm: float) -> None:
    """Write what a robot is printed or cast with: body, moulds, cores, a table and a page."""
    made = geosim.make(robot, out, tube=1e-3 * tube_mm, least_wall=1e-3 * least_wall_mm)
    for part in made.parts:
        click.echo(f"{part.name:16s}{part.kind:8s}{part.volume * 1e6:10.4g} cm^3  {part.note}")
    for notice in made.notices:
        click.echo(notice)
    click.echo(f"{out / 'index.html'}")


@main.command(
    cls=_Example,
    examples=(
        "geosim reduce my_robot/robot.toml --controls pressure_kpa=0:5 --out model.npz",
        "geosim reduce finger.toml --controls pressure_kpa=0:5,0:5,0:5 --accuracy 0.02 --preview --out finger.xml",
    ),
)
@click.argument("robot", type=ROBOT_PATH)
@click.option(
    "--controls",
    help="What is varied, and from where to where: pressure_kpa=0:5, volume_ratio=1:2, cable_length_mm=, cable_tension_n=; "
    "default pressures up to half of the shear modulus.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Model (.npz), its graph (.onnx) or a chain for MuJoCo (.xml).",
)
@click.option(
    "--accuracy", type=OPEN_UNIT_INTERVAL, default=0.01, show_default=True, help="Of the tip, over its largest way."
)
@click.option("--max-solves", type=click.IntRange(100), default=400, show_default=True, help="Equilibria at most.")
@click.option("--preview", is_flag=True, help="The coarsest mesh that keeps the geometry: bodies given as surfaces.")
def reduce(robot: Path, controls: str | None, out: Path, accuracy: float, max_solves: int, preview: bool) -> None:
    """Make a model of a robot that answers in microseconds, with a bound of its error."""
    from geosim.cli import reducing

    for line in reducing.reduce(robot, controls, out, accuracy, max_solves, preview):
        click.echo(line)


@main.command(
    cls=_Example,
    examples=("geosim export geosim-robot/result.npz --out robot.usda", "geosim export model.npz --out model.onnx"),
)
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write; its suffix is the format.")
def export(source: Path, out: Path) -> None:
    """Write a result (USD, glTF, VTK, surfaces) or a reduced model (ONNX) for other tools."""
    from geosim.cli import reducing

    for line in reducing.export(source, out):
        click.echo(line)


@main.command(
    cls=_Example,
    examples=(
        "geosim calibrate pull.csv",
        "geosim calibrate pull.csv:uniaxial balloon.csv:equibiaxial --model best --out mine.toml",
    ),
)
@click.argument("tests", nargs=-1, required=True, metavar="TEST.csv[:MODE] ...")
@click.option(
    "--model",
    default="best",
    show_default=True,
    help="neo-hookean, mooney-rivlin, yeoh, gent, ogden, or best for the recommended one.",
)
@click.option("--max-stretch", type=float, help="Use the points up to this stretch; default 2, inf for all.")
@click.option(
    "--toe",
    default="auto",
    show_default=True,
    metavar="auto|none|MM",
    help="Slack before loading begins: found from the first rise, none, or its length [mm].",
)
@click.option(
    "--compliance-um-per-n", "compliance", type=float, help="Of the machine, for displacements and forces [um/N]."
)
@click.option("--gauge-error", type=float, default=0.01, show_default=True, help="Of gauge lengths, relative, 1 sigma.")
@click.option("--unstable", is_flag=True, help="Allow constants that are unstable in some loading.")
@click.option("--strain-column", help="Name or number (from 0) of the column of strains.")
@click.option("--stress-column", help="Name or number (from 0) of the column of stresses or forces.")
@click.option("--strain-kind", help="stretch, 'engineering strain', 'true strain' or displacement.")
@click.option("--stress-kind", help="'engineering stress', 'true stress' or force.")
@click.option("--strain-unit", help="%, - or a length.")
@click.option("--stress-unit", help="kPa, MPa, N, ...")
@click.option("--area-mm2", "area", type=float, help="Rest cross-section of the specimen, for forces [mm^2].")
@click.option("--gauge-length-mm", "gauge_length", type=float, help="Rest length, for displacements [mm].")
@click.option("--delimiter", help="Between columns, one character.")
@click.option("--decimal", type=click.Choice([".", ","]), help="Decimal sign.")
@click.option("--out", type=click.Path(path_type=Path), help="MATERIAL.toml to write, with a picture beside it.")
@FORCE_OPTION
def calibrate(tests: tuple[str, ...], model: str, out: Path | None, force: bool, **given: Any) -> None:
    """Fit a material to tensile, equibiaxial, pure-shear or compression tests."""
    from geosim.apps.calibrate.command import run

    fitting = {key: given.pop(key) for key in ("max_stretch", "toe", "gauge_error")} | {
        "stable": not given.pop("unstable")
    }
    sizes = {"area": 1e-6, "gauge_length": 1e-3, "compliance": 1e-6}
    reading = given | {key: given[key] and unit * given[key] for key, unit in sizes.items()}
    for line in run(tests, model, out, force=force, reading=reading, **fitting):
        click.echo(in_options(line))


@main.command(
    cls=_Example,
    examples=(
        "geosim condition my_robot/robot.toml test.csv --unknowns wall_mm=1.5:2.2,modulus=0.7:1.4",
        "geosim condition my_robot/robot.toml test.csv --unknowns modulus=0.7:1.4 --of bend_angle_deg --at 20,30,40",
    ),
)
@click.argument("robot", type=ROBOT_PATH)
@click.argument("test", type=click.Path(path_type=Path))
@click.option("--unknowns", required=True, metavar="NAME=LOW:HIGH,...", help="What is not known, and its range.")
@click.option("--of", help="Measure that is wanted; default the first of the test.")
@click.option("--at", default="", metavar="LOAD,...", help="Loads to predict at; default up to three times the test's.")
@click.option(
    "--loads",
    type=click.Choice(["pressure_kpa", "volume_ratio", "cable_tension_n"]),
    help="What load_1 and load_2 are; default pressures of chambers, else tensions of cables.",
)
@click.option("--solves", type=click.IntRange(4), default=40, show_default=True, help="Samples of the unknowns.")
@click.option("--draws", type=click.IntRange(100), default=1000, show_default=True, help="Draws of the posterior.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random numbers.")
@click.option("--preview", is_flag=True, help="The coarsest mesh that keeps the geometry: bodies given as surfaces.")
@OUT_OPTION
@FORCE_OPTION
def condition(robot: Path, test: Path, out: Path | None, force: bool, **given: Any) -> None:
    """Condition a robot on a light test of it: bars of what it does at other loads, and the next test."""
    from geosim.apps.condition.command import run
    from geosim.apps.condition.solving import SolvedTest
    from geosim.files.folder import complete_folder

    try:
        at = [float(v) for v in given.pop("at").split(",") if v]
    except ValueError:
        raise click.UsageError("--at: write loads separated by commas, like 20,30,40") from None
    plan = SolvedTest(loads=given.pop("loads"), solves=given.pop("solves"))
    target = out or Path(f"geosim-{robot.parent.name or robot.stem}-conditioned")
    with complete_folder(target, force) as beside:
        lines = run(robot, test, given.pop("unknowns"), beside, at=at, solving=plan, **given)
    for line in lines:
        click.echo(line)
    click.echo(f"wrote posterior.npz, predictions.csv and pairs.png to {target}")


@main.command(
    cls=_Example,
    examples=(
        "geosim compare geosim-finger/result.npz scan.ply --units mm",
        "geosim compare result.npz markers.c3d --out map",
        "geosim compare first/result.npz second/result.npz",
    ),
)
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("scan", type=click.Path(path_type=Path))
@click.option(
    "--units", type=click.Choice(["m", "cm", "mm", "in"]), help="Of the scan or markers, where the file has none."
)
@click.option("--frame", type=int, default=-1, show_default=True, help="Frame of the result.")
@click.option("--kind", type=click.Choice(["scan", "markers"]), help="Of the file, where its suffix does not tell.")
@click.option("--register", type=click.Choice(["base", "all", "none"]), help="Points of a scan that fix its pose.")
@click.option("--base", help="Markers that fix the pose: names separated by commas, or the beginning of names.")
@click.option("--vertices", help="Where the markers sit: vertex ids in their order, 7,12,40, or base1=7,tip=40.")
@click.option(
    "--at", multiple=True, metavar="X,Y,Z", help="Place of a marker at rest [--units, else mm], one a marker."
)
@OUT_OPTION
@FORCE_OPTION
def compare(result: Path, scan: Path, out: Path | None, force: bool, **options: Any) -> None:
    """Compare a result with a scan (PLY, STL, OBJ, XYZ), with markers (C3D, TRC, CSV) or with another result (NPZ)."""
    from geosim.apps.compare.command import marker_names, marker_places, marker_points, run
    from geosim.arrays import METRES_PER_UNIT
    from geosim.cli.results import compare_results
    from geosim.files.folder import complete_folder

    given = {**options, "base": marker_names(options["base"]), "vertices": marker_places(options["vertices"])}
    given["at"] = marker_points(options["at"], METRES_PER_UNIT[options["units"] or "mm"])
    target = out or Path("geosim-comparison" if scan.suffix.lower() == ".npz" else f"geosim-{scan.stem}")
    with complete_folder(target, force) as beside:
        if scan.suffix.lower() == ".npz":
            lines = list(compare_results(result, scan, beside))
        else:
            lines = run(result, scan, beside, force=True, **given)
    for line in lines:
        click.echo(in_options(line.replace(str(beside), str(target))))


@main.command(
    cls=_Example,
    examples=("geosim materials", "geosim materials dragon-skin-30", "geosim materials --picture rubbers.png"),
)
@click.argument("name", required=False)
@click.option("--picture", type=click.Path(path_type=Path), help="Picture of the curves to write (.png, .pdf, .svg).")
def materials(name: str | None, picture: Path | None) -> None:
    """List the materials that robots may be made of, with sources; or show one."""
    from geosim.apps.calibrate import listing

    for line in listing.lines(name):
        click.echo(line)
    if picture is not None:
        click.echo(f"written: {listing.picture(picture, name)}")


def _study_options(command: Any) -> Any:
    """The options that sweep and optimize share."""
    for option in (
        click.option("--force", is_flag=True, help="Remove what a study wrote to the folder first."),
        click.option("--resume", is_flag=True, help="Go on with the designs that are not solved yet."),
        click.option("--out", type=click.Path(path_type=Path), help="Folder to write; default ./geosim-STUDYNAME."),
        click.option("--scheduler", metavar="tcp://...", help="Dask scheduler to solve the designs on."),
        click.option("--workers", type=click.IntRange(1), help="Designs at a time; default one a core."),
        click.argument("study", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@main.command(cls=_Example, examples=("geosim sweep study.toml", "geosim sweep study.toml --resume --workers 4"))
@_study_options
@click.option(
    "--at", multiple=True, metavar="KEY=VALUE", help="Solve this one design instead: a value of every dimension."
)
def sweep(study: Path, at: tuple[str, ...], **options: Any) -> int:
    """Solve every design of a study file, each in a process of its own; write a table and a report."""
    from geosim.cli.study import design_of, report

    return report("sweep", study, options | ({"at": design_of(at)} if at else {}))


@main.command(cls=_Example, examples=("geosim optimize study.toml", "geosim optimize study.toml --resume"))
@_study_options
def optimize(study: Path, **options: Any) -> int:
    """Find the designs of a study file that reach its goals best."""
    from geosim.cli.study import report

    return report("optimize", study, options)
