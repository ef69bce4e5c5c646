"""Answers that are JSON by a schema: the check before the judge, and the reading of the released answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, TypeAdapter, ValidationError

from judges import Cascade, Judge, as_judge
from judges.errors import ConfigurationError, shortened
from judges.models.methods import response_format
from judges.verdict import Verdict

Schema = type[Any] | Mapping[str, Any]
"""A pydantic class, a TypedDict, a dataclass, or a JSON schema."""

_MOST_FAULTS = 5


class Structure:
    """Reads texts as JSON by a schema.

    Args:
        schema: The schema.

    Raises:
        ConfigurationError: If it is none.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._name = _name_of(schema)
        self._adapter = _adapter_of(schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return Structure, (self._schema,)

    def __call__(self, response: str) -> Verdict:
        """Check whether an answer fits."""
        faults = self._faults(response)
        if not faults:
            return Verdict.checked(True)  # noqa: FBT003 - the result of the check
        feedback = f"Reply with one JSON object that fits the schema {self._name}: {' '.join(faults)}"
        return Verdict.checked(False, rationale="The answer does not fit the schema.", feedback=feedback)  # noqa: FBT003 - as above

    def read(self, answer: AIMessage) -> Any:
        """Return the object that an answer holds.

        Raises:
            OutputParserException: If it holds none.
        """
        try:
            return self._adapter.validate_json(str(answer.text))
        except ValidationError as error:
            raise OutputParserException(
                f"the answer is no JSON that fits the schema {self._name}: {' '.join(_described(error))}"
            ) from error

    def read_with_raw(self, answer: AIMessage) -> dict[str, Any]:
        """Return the answer, the object in it, and the error where there is none, as LangChain's models do."""
        try:
            return {"raw": answer, "parsed": self.read(answer), "parsing_error": None}
        except OutputParserException as error:
            return {"raw": answer, "parsed": None, "parsing_error": error}

    def _faults(self, text: str) -> list[str]:
        try:
            self._adapter.validate_json(text)
        except ValidationError as error:
            return _described(error)
        return []


def checked_first(structure: Structure, judge: object, *, success_rating: int) -> Judge:
    """Return a judge that is asked about answers that fit a schema; any other fails without it."""
    coerced = as_judge(judge)
    fits = as_judge(structure, name="schema")
    return Cascade({"schema": fits, coerced.name: coerced}, success_rating=success_rating, name=coerced.name)


def json_schema_of(schema: Schema, *, strict: bool | None = None) -> dict[str, Any]:
    """Return a schema as chat completions take it in `response_format`.

    Args:
        schema: The schema.
        strict: Whether the endpoint must enforce it exactly; None means so wherever the keys of all objects are
            known.
    """
    if isinstance(schema, Mapping) and schema.get("type") in ("json_schema", "json_object"):
        return dict(schema)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        field = response_format(schema)
    else:
        field = {"type": "json_schema", "json_schema": {"name": _name_of(schema), "schema": _plain_schema(schema)}}
    if strict is None:
        return field
    return {**field, "json_schema": {**field["json_schema"], "strict": strict}}


def _plain_schema(schema: Schema) -> dict[str, Any]:
    return dict(schema) if isinstance(schema, Mapping) else convert_to_json_schema(schema)


def _name_of(schema: Schema) -> str:
    if isinstance(schema, Mapping):
        inner = schema.get("json_schema")
        title = inner.get("name") if isinstance(inner, Mapping) else schema.get("title")
        return title if isinstance(title, str) and title.isidentifier() else "answer"
    return getattr(schema, "__name__", "answer")


def _adapter_of(schema: Schema) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(dict[str, Any] if isinstance(schema, Mapping) else schema)
    except Exception as error:
        raise ConfigurationError(
            f"a schema is a pydantic class, a TypedDict, a dataclass or a JSON schema, not {shortened(schema)}"
        ) from error


def _described(error: ValidationError) -> list[str]:
    """Describe the faults of a text by their places, without quoting it."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        f"{'.'.join(map(str, fault['loc'])) or 'the text'}: {fault['msg']}." for fault in faults[:_MOST_FAULTS]
    ]
