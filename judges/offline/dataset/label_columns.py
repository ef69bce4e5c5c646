"""Columns of a row that are about people's labels: no fields of a sample, but read wherever labels are."""

LABEL_NAMES = ("labels", "label", "human", "human_label", "human_labels", "human_rating", "gold")
"""Names under which a row may hold what people say; the first is the documented one."""

DRAW_NAMES = ("weight", "probability", "drawn")
"""How a row was drawn, which an estimate from its label must know."""

LABEL_COLUMNS = frozenset({*LABEL_NAMES, *DRAW_NAMES, "raters", "split"})
"""All of them: how many people are to label the row, and what its labels may be used for, besides."""
