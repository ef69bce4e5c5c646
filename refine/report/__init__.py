"""The report of a run, or of two: one page that needs no network, Markdown, or a table of rows.

Runs are read and become a `Document` (contents, trust, trial), which is a page, Markdown or CSV (page, markdown,
file). Only `file` writes one.
"""
