"""Judging a dataset, side by side and in order."""
