"""Finds the files that geosim ships: robots and material constants."""

from __future__ import annotations

from pathlib import Path

from geosim.errors import InputError

__all__ = ["resource"]


def resource(name: str) -> Path:
    """Return the folder `name` ("meshes" or "calibration"): inside the installed package, else in the checkout.

    Raises
    ------
    InputError
        Neither exists: the installation is incomplete.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / name, here.parent / name):
        if folder.is_dir():
            return folder
    raise InputError(
        f"{here / name} is missing: the installation is incomplete; run pip install --force-reinstall geosim"
    )
