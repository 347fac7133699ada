"""Commands of the applications; each is an entry point of the group `geosim.commands` in pyproject.toml."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

import geosim
from geosim.cli.commands import FORCE_OPTION, OPEN_UNIT_INTERVAL, OUT_OPTION, ROBOT_PATH, Example
from geosim.cli.wording import ApiOption, in_options

api_option = partial(click.option, cls=ApiOption)


@click.command(
    cls=Example,
    examples=("geosim make my_robot/robot.toml --out parts", "geosim make my_robot/robot.toml --out parts --tube-mm 4"),
)
@click.argument("robot", type=ROBOT_PATH)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the files.")
@api_option(
    "--tube-mm", of="apps.moulds.making.make:tube", type=float, unit=1e-3, help="Outer diameter of the tubes for air."
)
@api_option(
    "--least-wall-mm", of="apps.moulds.making.make:least_wall", type=float, unit=1e-3, help="Thinner walls are named."
)
def make(robot: Path, out: Path, tube_mm: float, least_wall_mm: float) -> None:
    """Write what a robot is printed or cast with: body, moulds, cores, a table and a page."""
    from geosim.files.messages import saying

    with saying("mm"):
        made = geosim.make(robot, out, tube=1e-3 * tube_mm, least_wall=1e-3 * least_wall_mm)
    for part in made.parts:
        click.echo(f"{part.name:16s}{part.kind:8s}{part.volume * 1e6:10.4g} cm^3  {part.note}")
    for notice in made.notices:
        click.echo(notice)
    click.echo(f"{out / 'index.html'}")


@click.command(
    cls=Example,
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
@api_option(
    "--accuracy",
    of="apps.bridges.reducing.reduce:accuracy",
    type=OPEN_UNIT_INTERVAL,
    help="Of the tip, over its largest way.",
)
@api_option(
    "--max-solves", of="apps.bridges.reducing.reduce:max_solves", type=click.IntRange(100), help="Equilibria at most."
)
@click.option("--preview", is_flag=True, help="The coarsest mesh that keeps the geometry: bodies given as surfaces.")
def reduce(robot: Path, controls: str | None, out: Path, accuracy: float, max_solves: int, preview: bool) -> None:
    """Make a model of a robot that answers in microseconds, with a bound of its error."""
    from geosim.cli import reducing

    for line in reducing.reduce(robot, controls, out, accuracy, max_solves, preview):
        click.echo(line)


@click.command(
    cls=Example,
    examples=("geosim export geosim-robot/result.npz --out robot.usda", "geosim export model.npz --out model.onnx"),
)
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write; its suffix is the format.")
def export(source: Path, out: Path) -> None:
    """Write a result (USD, glTF, VTK, surfaces) or a reduced model (ONNX) for other tools."""
    from geosim.cli import reducing

    for line in reducing.export(source, out):
        click.echo(line)


@click.command(
    cls=Example,
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
@api_option(
    "--toe",
    of="apps.calibrate.command.run:toe",
    metavar="auto|none|MM",
    help="Slack before loading begins: found from the first rise, none, or its length [mm].",
)
@click.option(
    "--compliance-um-per-n", "compliance", type=float, help="Of the machine, for displacements and forces [um/N]."
)
@api_option(
    "--gauge-error",
    of="apps.calibrate.calibration.fit_prepared:gauge_error",
    type=float,
    help="Of gauge lengths, relative, 1 sigma.",
)
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


@click.command(
    cls=Example,
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
@api_option(
    "--solves", of="apps.condition.solving.SolvedTest:solves", type=click.IntRange(4), help="Samples of the unknowns."
)
@api_option(
    "--draws",
    of="apps.condition.conditioning.condition:draws",
    type=click.IntRange(100),
    help="Draws of the posterior.",
)
@api_option("--seed", of="apps.condition.conditioning.condition:seed", type=int, help="Of random numbers.")
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


@click.command(
    cls=Example,
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


@click.command(
    cls=Example,
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


@click.command(cls=Example, examples=("geosim sweep study.toml", "geosim sweep study.toml --resume --workers 4"))
@_study_options
@click.option(
    "--at", multiple=True, metavar="KEY=VALUE", help="Solve this one design instead: a value of every dimension."
)
def sweep(study: Path, at: tuple[str, ...], **options: Any) -> int:
    """Solve every design of a study file, each in a process of its own; write a table and a report."""
    from geosim.cli.study import design_of, report

    return report("sweep", study, options | ({"at": design_of(at)} if at else {}))


@click.command(cls=Example, examples=("geosim optimize study.toml", "geosim optimize study.toml --resume"))
@_study_options
def optimize(study: Path, **options: Any) -> int:
    """Find the designs of a study file that reach its goals best."""
    from geosim.cli.study import report

    return report("optimize", study, options)
