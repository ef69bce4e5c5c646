"""Rows of other libraries, read into the fields of a sample: nested columns, replies, traces, objects."""
