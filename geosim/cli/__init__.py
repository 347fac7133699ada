"""The command line: `geosim demo | info | solve | calibrate | compare`."""

from geosim.cli.commands import main

__all__ = ["main"]
