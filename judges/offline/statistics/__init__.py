"""Arithmetic over results: plain functions, lists in, values out."""
