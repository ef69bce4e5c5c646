"""Runnable examples: `python -m demos.weather`, `python -m demos.chat`, `python -m demos.offline`."""
