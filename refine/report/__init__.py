"""The report of a run, or of two: one page that needs no network, Markdown, or a table of rows.

From a run's folder to a `Report` (reading, building, trust), from there to sections (sections, comparing,
trust_sections), and from those to text (page, markdown). Only `reading`, `labels` and `attempts` read files, and
nothing here writes one.
"""
