"""What a custom judge is shown: columns of a sample, by the names that mlflow's variables have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from judges.catalogue.parts.needed import answer_in, contexts_in, question_in, reference_in
from judges.catalogue.parts.shown import transcript
from judges.errors import CannotJudge, ConfigurationError
from judges.sample import Sample, field_named
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
    """List the variables of a criterion, `{{ name }}` or `$inputs` and its like, once each."""
    return tuple(dict.fromkeys(one[1] or one[2] for one in _VARIABLE.finditer(criteria)))


def with_names(criteria: str) -> str:
    """Write each variable of a criterion as the name of a field of the data."""
    return _VARIABLE.sub(lambda one: f"`{one[1] or one[2]}`", criteria)


def needed_for(column: str) -> str:
    """Name the field of a sample that a column is read from."""
    return _FIELDS.get(column) or field_named(column) or column


def checked_columns(given: object, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Check the columns that are to be shown; None stands for the variables.

    Raises:
        ConfigurationError: If they are no list of names, or leave a variable out.
    """
    if given is None:
        return variables
    if isinstance(given, str) or not isinstance(given, Sequence) or not given or "" in given:
        raise ConfigurationError(f"columns lists names such as 'inputs' and 'outputs', not {given!r}")
    if not all(isinstance(one, str) for one in given):
        raise ConfigurationError(f"columns lists names such as 'inputs' and 'outputs', not {given!r}")
    left_out = [one for one in variables if one not in given]
    if left_out:
        raise ConfigurationError(f"criteria speaks of {left_out[0]!r}; add it to columns={list(given)!r}")
    return tuple(dict.fromkeys(given))


def column(name: str, sample: Sample) -> JsonValue:
    """Give what is shown under a name.

    Raises:
        CannotJudge: If the sample has nothing there; the reason says what is missing.
    """
    field = field_named(name) or name
    shown: Any = _VIEWS[field](sample) if field in _VIEWS else _plain(field, sample)
    if shown in (None, "", [], {}):
        raise CannotJudge(_MISSING.get(field, "undefined"), f"the sample has no {name!r}")
    return shown  # type: ignore[no-any-return]  # as JSON


def _plain(field: str, sample: Sample) -> JsonValue:
    if field in Sample.model_fields:
        return sample.model_dump(mode="json", include={field})[field]  # type: ignore[no-any-return]  # as JSON
    return sample.metadata.get(field)


def _expected(sample: Sample) -> JsonValue:
    shown = sample.model_dump(mode="json", include={"reference", "expected_facts", "guidelines"})
    return {name: one for name, one in shown.items() if one}


_VIEWS: Mapping[str, Callable[[Sample], JsonValue]] = {
    "user_input": question_in,
    "response": answer_in,
    "reference": reference_in,
    "retrieved_contexts": lambda sample: list(contexts_in(sample)),
    "expectations": _expected,
    "conversation": lambda sample: transcript(sample.messages),
    "trace": lambda sample: transcript(sample.steps),
}
