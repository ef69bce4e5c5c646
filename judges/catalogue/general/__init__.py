"""Judges of no particular source: deterministic checks, rubrics, pairwise comparison, the gate."""
