"""Answers in a format: code that parses, and JSON that equals the expected one field by field."""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from typing import Any, Unpack

from pydantic import JsonValue

from judges.catalogue.metric import ComputedMetric, Metric, MetricSettings
from judges.catalogue.parts.calls import render_value
from judges.catalogue.parts.claims import bullets, listed_feedback, share
from judges.catalogue.parts.fields import answer_in, reference_in
from judges.catalogue.parts.json_fields import ROOT, FieldState, JsonComparison, JsonField, ListMode
from judges.catalogue.parts.text import strip_fence
from judges.compose.panel import as_judge
from judges.entry import Explanation
from judges.errors import CannotJudge, one_line, shortened, unfit
from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Consult, Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_FENCE = re.compile(r"^(?P<quoted>[ \t]*>)?[ \t>]{0,12}(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")
_MOST_PARSED = 100_000


@dataclass(frozen=True)
class _CodeBlock:
    """A block of code in an answer.

    Args:
        language: Its language in lower case as the fence names it; empty where it names none.
        text: The code.
        is_closed: Whether the fence is closed.
    """

    language: str
    text: str
    is_closed: bool = True


class _NotChecked(Exception):  # noqa: N818 - it says what happened, and is no error
    """A block cannot be checked; the text says why."""


def code_blocks(text: str) -> tuple[_CodeBlock, ...]:
    """Return the fenced blocks of a text in their order; one that is not closed reaches to the end."""
    blocks: list[_CodeBlock] = []
    marks, language, lines, quoted = "", "", list[str](), False
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if not marks and fence:
            marks, language, lines = fence["marks"], _language_of(fence["info"]), []
            quoted = fence["quoted"] is not None
        elif fence and fence["marks"].startswith(marks) and not fence["info"].strip():
            blocks.append(_CodeBlock(language, "\n".join(lines)))
            marks = ""
        elif marks:
            lines.append(re.sub(r"^[ \t]*> ?", "", line) if quoted else line)
    return (*blocks, _CodeBlock(language, "\n".join(lines), is_closed=False)) if marks else tuple(blocks)


def _fault_in_code(block: _CodeBlock) -> str:
    """Return what is wrong with a block, in one line with the number of its line; empty if it parses.

    Raises:
        _NotChecked: If there is no parser for its language here, or it is too long.
    """
    parse = _PARSERS.get(block.language)
    if parse is None:
        raise _NotChecked(f"{block.language or 'a block without a language'}: there is no parser for it here")
    if len(block.text) > _MOST_PARSED:
        raise _NotChecked(f"{block.language}: longer than {_MOST_PARSED} characters")
    try:
        parse(dedent(block.text))
    except SyntaxError as error:
        return _at(error.lineno, error.msg)
    except json.JSONDecodeError as error:
        return _at(error.lineno, error.msg)
    except (RecursionError, MemoryError):
        raise _NotChecked(f"{block.language}: nested too deeply") from None
    except ValueError as error:
        return one_line(error)
    return ""


def _at(line: int | None, message: str) -> str:
    return one_line(f"line {line}: {message}" if line else message)


def _language_of(info: str) -> str:
    """Return the language of a fence: its first word, such as in "```python title=x" or "```{.python}"."""
    word = re.match(r"[{.\s]*([\w+#-]*)", info)
    return word[1].lower() if word else ""


def _parse_python(text: str) -> None:
    if text.lstrip().startswith(">>>"):
        raise _NotChecked("python: a session of the interpreter")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a SyntaxWarning is no fault
        compile(text, "<answer>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _parse_json(text: str) -> None:
    json.loads(text, parse_constant=_reject_constant)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _parse_json_lines(text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                _parse_json(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error.msg}") from error


def _parse_yaml(text: str) -> None:
    yaml: Any = _library("yaml", "yaml: PyYAML is not installed")
    try:
        for _ in yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(_at(mark and mark.line + 1, getattr(error, "problem", None) or str(error))) from error


def _sql_parser(dialect: str) -> Callable[[str], None]:
    def parse(text: str) -> None:
        sqlglot: Any = _library("sqlglot", "sql: it needs the extra selfrefine[sql]")
        try:
            trees = sqlglot.parse(text, read=dialect or None)
        except sqlglot.errors.ParseError as error:
            first = (error.errors or [{}])[0]
            raise ValueError(_at(first.get("line"), first.get("description") or str(error))) from error
        except sqlglot.errors.SqlglotError as error:
            raise ValueError(one_line(error)) from error
        commands = [tree for tree in trees if isinstance(tree, sqlglot.exp.Command)]
        if commands:
            raise _NotChecked("sql: a statement that the parser does not know")
        if any(isinstance(tree, sqlglot.exp.Condition | sqlglot.exp.Alias) for tree in trees):
            raise ValueError("an expression, and no statement")

    return parse


def _library(module: str, absent: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise _NotChecked(absent) from None


_PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("python", "py", "python3"), _parse_python),
    "json": _parse_json,
    **dict.fromkeys(("jsonl", "ndjson"), _parse_json_lines),
    "toml": tomllib.loads,
    **dict.fromkeys(("yaml", "yml"), _parse_yaml),
    "sql": _sql_parser(""),
    **{name: _sql_parser(name) for name in ("mysql", "sqlite", "bigquery", "snowflake", "tsql", "duckdb")},
    **dict.fromkeys(("postgresql", "postgres"), _sql_parser("postgres")),
}
"""Parsers by the language that a fence names."""


class Code(ComputedMetric, entry="code", pack="code"):
    """Judge whether the code in the answer parses: Python, JSON (lines), TOML, YAML and, with the extra, SQL.

    Score = blocks that parse / blocks that could be checked; each block is an item, and one in another language is
    an unscored item that names it. A block whose fence is not closed fails. Nothing is ever run.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    pass_mark = 1.0

    def __init__(
        self, *, unfenced: str | None = None, feedback: str | None = None, **settings: Unpack[MetricSettings]
    ) -> None:
        value: object = unfenced
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise unfit("unfenced names a language such as 'python'", unfenced)
        super().__init__(**settings)
        self._unfenced, self.own_feedback = unfenced, feedback

    def compute(self, sample: Sample) -> Verdict:
        """Parse every block."""
        answer = answer_in(sample)
        blocks = code_blocks(answer)
        if not blocks and self._unfenced is not None:
            blocks = (_CodeBlock(self._unfenced.strip().lower(), answer),)
        if not blocks:
            raise CannotJudge("undefined", "there is no fenced code in the answer")
        items = [_verdict_on(number, block) for number, block in enumerate(blocks, 1)]
        scored = [item for item in items if item.unscored is None]
        if not scored:
            details = "; ".join(dict.fromkeys(item.detail for item in items))
            return Verdict.without_score("undefined", f"no code could be checked: {details}", items=tuple(items))
        failed = [f"{item.subject}: {item.rationale}" for item in scored if not item.passed]
        skipped = "; ".join(f"{item.subject} was not checked" for item in items if item.unscored is not None)
        feedback = listed_feedback(self, sample, {"broken": failed}, "blocks")
        rationale = "\n".join(failed) or f"{len(scored)} of {len(items)} blocks were checked, and parse."
        return self.verdict(
            share(scored), items=tuple(items), rationale=rationale, feedback=feedback, detail=skipped
        )


def _verdict_on(number: int, block: _CodeBlock) -> Verdict:
    subject = f"{number} ({block.language or '?'})"
    if not block.is_closed:
        return Verdict.checked(passed=False, subject=subject, rationale="the fence is not closed")
    try:
        fault = _fault_in_code(block)
    except _NotChecked as reason:
        return Verdict.without_score("undefined", f"not checked: {reason}", subject=subject)
    return Verdict.checked(not fault, subject=subject, rationale=fault or "It parses.")


_ORDER: tuple[FieldState, ...] = ("missing", "different", "extra")


class JsonMatch(Metric, entry="json_match", pack="json_match"):
    """Judge how far an answer in JSON agrees with the reference, field by field.

    Both are JSON texts. A field is a value that is no object and no list, at its path: `city`, `order.id`,
    `items[].name` for a field of every element of a list, `$` for the whole. Values must be equal (75 is 75.0, but
    not "75"), unless a judge is set for their path: it is asked with the field's value as the answer and the
    expected one as the reference, in place of both texts.
    Score = mean over the fields of 1, 0, or the judge's score; a field or element that only one side has is 0. It
    passes at `threshold`, 1 unless given. An answer that is no JSON is 0.

    Raises:
        ConfigurationError: If a setting is out of its range, or a field's judge is none.
    """

    pass_mark = 1.0

    def __init__(
        self,
        fields: Mapping[str, object] | None = None,
        *,
        lists: ListMode = "ordered",
        ignore: Iterable[str] = (),
        allow_extra: bool = False,
        reveal_reference: bool = False,
        feedback: str | None = None,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self.fields: Mapping[str, Judge] = _judges_by_path(fields)
        self._reveals, self._feedback = reveal_reference, feedback
        self._comparison = JsonComparison(
            judged=frozenset(self.fields), ignored=_paths(ignore), lists=lists, allow_extra=allow_extra
        )

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """Every model that a field's judge asks."""
        return tuple(model for judge in self.fields.values() for model in judge.models)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that any field's judge reads."""
        return tuple(dict.fromkeys(key for judge in self.fields.values() for key in judge.metadata_keys))

    def explain(self) -> Explanation:
        """Describe what it and its fields' judges need, ask and cost; a field in a list is judged each time."""
        parts = [judge.explain() for judge in self.fields.values()]
        calls = " + ".join(part.calls for part in parts if part.calls != "0")
        listed = [path for path in self.fields if "[]" in path]
        remark = f"; for each element of {', '.join(listed)}" if calls and listed else ""
        explanation = super().explain()
        return Explanation.of_parts(
            self.name,
            parts,
            asks=explanation.asks,
            needs=tuple(dict.fromkeys((*explanation.needs, *(need for part in parts for need in part.needs)))),
            calls=f"{calls}{remark}" if calls else "0",
            variant=self.variant,
        )

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare the fields, and consult the judges of some, all at once."""
        answer, expected = answer_in(sample), _expected_in(sample)
        try:
            actual = _parsed(answer)
        except ValueError:
            text = self.say("not_json", sample)
            return self.verdict(0.0, rationale=text, feedback=self._feedback or text)
        fields = self._comparison.fields(expected, actual)
        judged = [field for field in fields if field.state == "to_judge"]
        requests = tuple(Consult(self.fields[field.pattern], _field_sample(sample, field)) for field in judged)
        verdicts: tuple[Verdict, ...] = (yield requests) if requests else ()
        by_path = dict(zip((field.path for field in judged), verdicts, strict=True))
        return self._conclude(sample, fields, by_path)

    def _conclude(self, sample: Sample, fields: Sequence[JsonField], judged: Mapping[str, Verdict]) -> Verdict:
        items = tuple(_item(field, judged.get(field.path)) for field in fields)
        unscored = next((item for item in items if item.unscored), None)
        if unscored is not None and unscored.unscored is not None:
            detail = f"field {shortened(unscored.subject)}: {unscored.detail}"
            return Verdict.without_score(unscored.unscored, detail, items=items)
        score = sum(item.score or 0 for item in items) / len(items) if items else 1.0
        advice = "\n".join(self._advice(sample, fields, items, reveals=self._reveals))
        rationale = "\n".join(self._advice(sample, fields, items, reveals=True))
        feedback = self._feedback if advice and self._feedback is not None else advice
        return self.verdict(
            score, rationale=rationale, feedback=feedback, items=items, detail=self._unused(fields)
        )

    def _advice(
        self, sample: Sample, fields: Sequence[JsonField], items: Sequence[Verdict], *, reveals: bool
    ) -> Iterator[str]:
        """Yield what to change: the fields by their fault, then what their judges say."""
        for state in _ORDER:
            lines = [self._line(sample, field, reveals=reveals) for field in fields if field.state == state]
            if lines:
                yield self.say(state, sample, fields=bullets(lines, longest=400))
        lines = [
            f"{item.subject} - {item.feedback or item.rationale}"
            for field, item in zip(fields, items, strict=True)
            if field.state == "to_judge" and not item.passed
        ]
        if lines:
            yield self.say("judged", sample, fields=bullets(lines, longest=600))

    def _line(self, sample: Sample, field: JsonField, *, reveals: bool) -> str:
        if not reveals or field.state == "extra":
            return field.path
        return self.say("expected", sample, field=field.path, value=render_value(field.expected))

    def _unused(self, fields: Iterable[JsonField]) -> str:
        """Say which judges had no field to judge."""
        patterns = {field.pattern for field in fields}
        unused = [path for path in self.fields if path not in patterns]
        return f"no field to judge at {', '.join(unused)}" if unused else ""


def _item(field: JsonField, judged: Verdict | None) -> Verdict:
    if judged is not None:
        return judged.model_copy(update={"subject": field.path})
    same = field.state == "same"
    return Verdict.checked(same, value=field.state, subject=field.path)


def _field_sample(sample: Sample, field: JsonField) -> Sample:
    """Return the sample with a field's value as the answer, and the expected one as the reference."""
    update = {"response": _text(field.actual), "reference": _text(field.expected)}
    return sample.model_copy(update=update)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _expected_in(sample: Sample) -> JsonValue:
    try:
        return _parsed(reference_in(sample))
    except ValueError:
        raise CannotJudge("invalid_sample", "the reference is not one JSON value") from None


def _parsed(text: str) -> JsonValue:
    """Parse a JSON value, which may stand in a code fence.

    Raises:
        ValueError: If it is none, or nested too deep.
    """
    try:
        value: JsonValue = json.loads(strip_fence(text), parse_constant=_reject_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return value


def _judges_by_path(fields: Any) -> Mapping[str, Judge]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise unfit("fields maps paths such as 'order.id' to judges", fields)
    paths = [_path(path) for path in fields]
    return {path: as_judge(judge, name=path) for path, judge in zip(paths, fields.values(), strict=True)}


def _paths(paths: Any) -> frozenset[str]:
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise unfit("ignore is a list of paths such as 'order.id'", paths)
    return frozenset(_path(path) for path in paths)


def _path(path: object) -> str:
    """Return a path as the comparison writes it; `$.a` and `a[*]` are known, too."""
    if not isinstance(path, str) or not path.strip():
        raise unfit("a path is a text such as 'order.id' or 'items[].name'", path)
    return path.strip().removeprefix("$.").replace("[*]", "[]") or ROOT
