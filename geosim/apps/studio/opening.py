"""What `geosim studio TARGET` opens: a generator, a robot file, a result, the folder of a study."""

from __future__ import annotations

from pathlib import Path

from geosim.apps.studio.scene import of_design, of_file, of_result
from geosim.apps.studio.session import Session
from geosim.errors import InputError
from geosim.generate import GENERATORS, ROD_GENERATORS
from geosim.resources import read_toml

__all__ = ["opened"]


def opened(target: str, folder: Path) -> Session:
    """Return the session of a target; files are saved in `folder`.

    Raises
    ------
    InputError
        It is none of what can be opened, or says something that cannot be.
    """
    session = _session(target, folder)
    session.scene.job()
    return session


def _session(target: str, folder: Path) -> Session:
    if target in GENERATORS:
        return Session(of_design(target), folder)
    if target in ROD_GENERATORS:
        raise InputError(f"{target}: the studio makes bodies; run geosim generate {target} and open its robot.toml")
    path = Path(target)
    if path.suffix == ".toml" and path.is_file():
        return Session(of_file(path), folder)
    if path.suffix == ".npz" and path.is_file():
        return Session(of_result(path), folder)
    if (path / "study.toml").is_file():
        report = path / "report.html"
        best = path / "best" / "robot.toml"
        if best.is_file():
            return Session(of_file(best), folder, report if report.is_file() else None)
        study = read_toml(path / "study.toml", "study")
        if study.get("design") in GENERATORS:
            return Session(of_design(str(study["design"])), folder, report if report.is_file() else None)
        raise InputError(
            f"{path}: its study has neither a best design nor a generator; open the robot.toml of one of its runs"
        )
    raise InputError(
        f"{target}: neither a generator ({', '.join(GENERATORS)}) nor a robot.toml, a result.npz or the folder of a study"
    )
