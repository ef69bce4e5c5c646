"""Judges of whole conversations after mlflow's."""
