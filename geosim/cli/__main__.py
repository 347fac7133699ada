"""`python -m geosim.cli` is the command `geosim`."""

from geosim.cli.commands import main

main()
