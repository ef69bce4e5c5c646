"""Judges and metrics after ragas, https://docs.ragas.io."""
