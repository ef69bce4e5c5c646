"""Run the command line with `python -m refine`."""

from refine.cli import main

main()
