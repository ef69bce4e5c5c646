"""Judges after Databricks' built-in judges and mlflow's scorers."""
