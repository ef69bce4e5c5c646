"""Runnable examples, such as `python -m demos.weather`, `demos.local`, `demos.chat` and `demos.offline`."""
