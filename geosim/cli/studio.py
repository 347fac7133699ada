"""`geosim studio`: a page in the browser where knobs are turned and the robot answers."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from geosim.errors import InputError

DEFAULT_TARGET = "pneunet"


@click.command(
    epilog="Examples: geosim studio    geosim studio bellows    geosim studio my_robot/robot.toml --no-browser"
)
@click.argument("target", default=DEFAULT_TARGET)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On 127.0.0.1; default a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
def studio(target: str, port: int, no_browser: bool) -> None:
    """Turn a knob, see the robot: a page for a design, a robot file, a result or the folder of a study.

    TARGET: the name of a generator (geosim generate lists them), a ROBOT.toml, a RESULT.npz or a folder that geosim sweep or
    optimize wrote; default pneunet.
    """
    try:
        from geosim.apps.studio.opening import opened
        from geosim.apps.studio.server import HOST, bound, new_token, serve
    except ImportError as error:
        raise InputError(f"geosim studio needs {error.name}; run pip install 'geosim[studio]'") from None
    session = opened(target, Path.cwd())
    listening, token = bound(port), new_token()
    address = f"http://{HOST}:{listening.getsockname()[1]}/?token={token}"
    click.echo(address)
    click.echo("Ctrl-C ends it; files are saved where it was started", err=True)
    if not no_browser:
        webbrowser.open(address)
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        serve(session, listening, token)
