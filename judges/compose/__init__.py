"""Judges made of functions and of other judges."""
