"""A judge of your own: a criterion in words, a kind of reply, and the columns to show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from pydantic import JsonValue, ValidationError

from judges.catalogue.general.rubric import GradedExample
from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts import questions
from judges.catalogue.parts.fields import answer_in, contexts_in, question_in, reference_in, transcript
from judges.errors import BadSample, CannotJudge, ConfigurationError, first_fault, shortened, unfit
from judges.messages import WITHOUT_MEDIA
from judges.models.prompt_and_reply import render_example
from judges.prompting.prompts import Language, Prompt, Question, ReplySchema
from judges.requests import Deliberation, WorkedExample
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


def _checked_columns(columns: object, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns to show, checked; None stands for the variables.

    Raises:
        ConfigurationError: If they are not a list of names, or leave a variable out.
    """
    if columns is None:
        return variables
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns or "" in columns:
        raise unfit("columns lists names such as 'inputs' and 'outputs'", columns)
    if not all(isinstance(name, str) for name in columns):
        raise unfit("columns lists names such as 'inputs' and 'outputs'", columns)
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


_AnswerChoices = type[bool] | str | Sequence[str] | Sequence[int] | Mapping[str, float]
"""The kind of reply: `bool`, labels, labels with their scores, or the ends of a range of whole numbers."""

_YES_OR_NO = (bool, "bool")


class Custom(ModelJudge, entry="databricks.custom", pack="databricks_custom"):
    """Judge by a criterion of your own, with the kind of reply you choose, in one call.

    A variable in the criterion, `{{ outputs }}` or `$outputs`, names a column the model is shown; what is judged
    never becomes part of the instructions. Both variants give the same scores.
    """

    def __init__(
        self,
        model: object = None,
        *,
        criteria: str,
        answer: _AnswerChoices = bool,
        examples: Sequence[GradedExample] = (),
        columns: Sequence[str] | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        criteria = questions.checked_text(criteria, setting="criteria")
        self._columns = _checked_columns(columns, variables_in(criteria))
        self._scores = _scores(answer)
        choices = () if answer in _YES_OR_NO else tuple(self._scores)
        reply = questions.finding_schema(choices)
        worst_to_best = sorted(self._scores, key=self._scores.__getitem__)
        self._question: Question[Any] = Question(
            prompt=self.pack,
            reply=reply,
            fills=partial(_fills, with_names(criteria), self._scores),
            examples=tuple(self._render_examples(examples, reply)) or (() if _are_labels(choices) else None),
            example_format=questions.example_format(reply, lowest=worst_to_best[0], highest=worst_to_best[-1]),
        )
        super().__init__(model, questions=(self._question,), **settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """The fields of a sample that are shown."""
        return tuple(map(source_field, self._columns)) or self.entry.needs

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        reply = yield from self.ask(self._question, sample, self._data(sample))
        return questions.label_verdict(self, reply, self._scores)

    def _data(self, sample: Sample) -> dict[str, JsonValue]:
        return {name: column(name, sample) for name in self._columns} or questions.full_evidence(sample)

    def _render_examples(
        self, examples: Iterable[GradedExample], schema: type[ReplySchema]
    ) -> Iterable[WorkedExample]:
        for fields, reply in examples:
            try:
                expected = schema.model_validate({"feedback": "", **reply}, strict=True)
                yield render_example(self._data(Sample.read(fields)), expected)
            except (BadSample, CannotJudge) as error:
                raise ConfigurationError(f"an example of {self.entry.name!r}: {error}") from error
            except ValidationError as error:
                place, fault = first_fault(error)
                raise ConfigurationError(f"an example's reply, field {place!r}: {fault}") from error


def _are_labels(choices: Sequence[object]) -> bool:
    """Return whether the replies are labels of the caller's own, to which no example of the pack can be true."""
    return any(isinstance(choice, str) for choice in choices)


def _fills(criteria: str, scores: Mapping[Any, float], text: Prompt, _: Language) -> dict[str, str]:
    """Return the criterion and, for labels and numbers, which of them are good."""
    if True in scores:
        return {"criteria": criteria}
    labels = ", ".join(map(str, sorted(scores, key=scores.__getitem__)))
    return {"criteria": f"{criteria}\n{text.feedback_text('scale', labels=labels)}"}


def _scores(answer: Any) -> Mapping[Any, float]:
    """Return the score of each reply.

    Raises:
        ConfigurationError: If `answer` is none of the kinds of reply.
    """
    if answer in _YES_OR_NO:
        return {False: 0.0, True: 1.0}
    if isinstance(answer, Mapping) and answer:
        return _label_scores(answer)
    kinds = [type(label) for label in answer] if isinstance(answer, list | tuple) else []
    if kinds == [int, int] and answer[0] < answer[1] < answer[0] + questions.FINEST:
        return _even_scores(range(answer[0], answer[1] + 1))
    if set(kinds) == {str} and len(kinds) == len(set(answer)) > 1 and all(answer):
        return _even_scores(answer)
    raise unfit(
        "answer is bool, labels such as ('bad', 'good'), labels with scores, or the ends of a range of "
        f"at most {questions.FINEST} whole numbers such as (1, 5)",
        answer,
    )


def _label_scores(scores: Mapping[Any, Any]) -> Mapping[str, float]:
    for label, score in scores.items():
        if not isinstance(label, str) or not label or type(score) not in (int, float) or not 0 <= score <= 1:
            raise ConfigurationError(
                f"answer maps labels to scores from 0 to 1, not {shortened(label)} to {shortened(score)}"
            )
    return {label: float(score) for label, score in scores.items()}


def _even_scores(choices: Sequence[Any]) -> Mapping[Any, float]:
    return {choice: place / (len(choices) - 1) for place, choice in enumerate(choices)}
