"""`python -m geosim` is the command `geosim`."""

from geosim.cli.commands import main

main()
