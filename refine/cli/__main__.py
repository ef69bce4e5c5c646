"""Run the command line with `python -m refine.cli`."""

from refine.cli import main

main()
