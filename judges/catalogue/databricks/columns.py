"""The columns of a sample that a custom judge shows its model, named as mlflow names its variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.needed import answer_in, contexts_in, question_in, reference_in
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.media import WITHOUT_MEDIA
from judges.sample import Sample, canonical_field
from judges.verdict import Unscored

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}|\$(inputs|outputs|expectations|conversation|trace)\b")
_MISSING: Mapping[str, Unscored] = {
    "conversation": "no_question",
    "expectations": "no_reference",
    "expected_facts": "no_reference",
    "reference_contexts": "no_reference",
    "guidelines": "no_guidelines",
    "rubrics": "no_rubrics",
    "reference_topics": "no_topics",
}
_FIELDS = {"conversation": "user_input", "expectations": "expected_facts or reference", "trace": "trajectory"}


def variables_in(criteria: str) -> tuple[str, ...]:
    """List the variables of a criterion, `{{ name }}` or `$inputs` and the like, once each."""
    return tuple(dict.fromkeys(match[1] or match[2] for match in _VARIABLE.finditer(criteria)))


def with_names(criteria: str) -> str:
    """Return a criterion with each variable replaced by the name of a field of the data."""
    return _VARIABLE.sub(lambda match: f"`{match[1] or match[2]}`", criteria)


def source_field(column: str) -> str:
    """Return the name of the sample field that a column is read from."""
    return _FIELDS.get(column) or canonical_field(column) or column


def checked_columns(columns: object, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns to show, checked; None stands for the variables.

    Raises:
        ConfigurationError: If they are not a list of names, or leave a variable out.
    """
    if columns is None:
        return variables
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns or "" in columns:
        raise ConfigurationError(f"columns lists names such as 'inputs' and 'outputs', not {shortened(columns)}")
    if not all(isinstance(name, str) for name in columns):
        raise ConfigurationError(f"columns lists names such as 'inputs' and 'outputs', not {shortened(columns)}")
    left_out = [name for name in variables if name not in columns]
    if left_out:
        raise ConfigurationError(
            f"criteria speaks of {shortened(left_out[0])}; add it to columns={shortened(list(columns))}"
        )
    return tuple(dict.fromkeys(columns))


def column(name: str, sample: Sample) -> JsonValue:
    """Return the value of a column.

    Raises:
        CannotJudge: If the sample has no value there; the reason says what is missing.
    """
    field = canonical_field(name) or name
    value: Any = _VIEWS[field](sample) if field in _VIEWS else _plain(field, sample)
    if value in (None, "", [], {}):
        raise CannotJudge(_MISSING.get(field, "undefined"), f"the sample has no {name!r}")
    return value  # type: ignore[no-any-return]  # as JSON


def _plain(field: str, sample: Sample) -> JsonValue:
    if field in Sample.model_fields:
        return sample.model_dump(mode="json", include={field}, exclude=WITHOUT_MEDIA)[field]  # type: ignore[no-any-return]  # as JSON
    return sample.metadata.get(field)


def _expectations(sample: Sample) -> JsonValue:
    fields = sample.model_dump(mode="json", include={"reference", "expected_facts", "guidelines"})
    return {name: value for name, value in fields.items() if value}


_VIEWS: Mapping[str, Callable[[Sample], JsonValue]] = {
    "user_input": question_in,
    "response": answer_in,
    "reference": reference_in,
    "retrieved_contexts": lambda sample: list(contexts_in(sample)),
    "expectations": _expectations,
    "conversation": lambda sample: transcript(sample.messages),
    "trace": lambda sample: transcript(sample.steps),
}
