"""Judges composed of functions and of other judges."""
