"""Judges of safety: injections, leaks of personal data and secrets, harm by class, refusals."""
