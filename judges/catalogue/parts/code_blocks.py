"""Fenced blocks of code in an answer, and parsers that check them without running them."""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from typing import Any

from judges.errors import one_line

_FENCE = re.compile(r"^(?P<quoted>[ \t]*>)?[ \t>]{0,12}(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")
_MOST_PARSED = 100_000


@dataclass(frozen=True)
class CodeBlock:
    """A block of code in an answer.

    Args:
        language: Its language in lower case as the fence names it; empty where it names none.
        text: The code.
        is_closed: Whether the fence is closed.
    """

    language: str
    text: str
    is_closed: bool = True


class NotChecked(Exception):  # noqa: N818 - it says what happened, and is no error
    """A block cannot be checked; the text says why."""


def code_blocks(text: str) -> tuple[CodeBlock, ...]:
    """Return the fenced blocks of a text in their order; one that is not closed reaches to the end."""
    blocks: list[CodeBlock] = []
    marks, language, lines, quoted = "", "", list[str](), False
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if not marks and fence:
            marks, language, lines = fence["marks"], _language_of(fence["info"]), []
            quoted = fence["quoted"] is not None
        elif fence and fence["marks"].startswith(marks) and not fence["info"].strip():
            blocks.append(CodeBlock(language, "\n".join(lines)))
            marks = ""
        elif marks:
            lines.append(re.sub(r"^[ \t]*> ?", "", line) if quoted else line)
    return (*blocks, CodeBlock(language, "\n".join(lines), is_closed=False)) if marks else tuple(blocks)


def fault_in_code(block: CodeBlock) -> str:
    """Return what is wrong with a block, in one line with the number of its line; empty if it parses.

    Raises:
        NotChecked: If there is no parser for its language here, or it is too long.
    """
    parse = _PARSERS.get(block.language)
    if parse is None:
        raise NotChecked(f"{block.language or 'a block without a language'}: there is no parser for it here")
    if len(block.text) > _MOST_PARSED:
        raise NotChecked(f"{block.language}: longer than {_MOST_PARSED} characters")
    try:
        parse(dedent(block.text))
    except SyntaxError as error:
        return _at(error.lineno, error.msg)
    except json.JSONDecodeError as error:
        return _at(error.lineno, error.msg)
    except (RecursionError, MemoryError):
        raise NotChecked(f"{block.language}: nested too deeply") from None
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
        raise NotChecked("python: a session of the interpreter")
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
            raise NotChecked("sql: a statement that the parser does not know")
        if any(isinstance(tree, sqlglot.exp.Condition | sqlglot.exp.Alias) for tree in trees):
            raise ValueError("an expression, and no statement")

    return parse


def _library(module: str, absent: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise NotChecked(absent) from None


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
