"""What the library says names options on the command line."""

from __future__ import annotations

import click
import pytest

from geosim.cli.wording import in_options, meanings
from geosim.generate import ALL_GENERATORS, pneunet
from geosim.generate.dimensions import dimensions


@click.command()
@click.option("--rescue", is_flag=True)
@click.option("--area-mm2", "area")
def command(rescue, area):
    """Do nothing."""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "let rescue=True (rescue = true in a robot file) repair it",
            "let --rescue (rescue = true in a robot file) repair it",
        ),
        ("area= [m^2] must be positive", "--area-mm2 must be positive"),
        ("radius=True is none of its arguments", "radius=True is none of its arguments"),
    ],
)
def test_arguments_are_options(said, shown):
    assert in_options(said, command) == shown


def test_every_dimension_of_every_design_has_a_meaning():
    """The docstring says it; of two in one entry both are named."""
    for generator in ALL_GENERATORS.values():
        assert {d.name for d in dimensions(generator).values()} <= meanings(generator).keys()
    assert meanings(pneunet)["cap"] == "Thickness of what is solid at both ends, besides the wall [m]."
    assert (
        meanings(pneunet)["height"]
        == "width, height: Outer size along y and z [m]; the height also of each chamber (chambers,)."
    )
