"""Run the demo with `python -m demos.weather`."""

from demos.weather.app import main

raise SystemExit(main())
