"""What is known about a judge before it runs: its `Entry` in the catalogue, and its `Explanation`."""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from textwrap import dedent, indent
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints, is_typeddict

_Better = Literal["high", "low"]
Subject = Literal["answer", "retriever", "agent", "conversation"]
_InLoop = Literal["yes", "with evidence", "with an agent", "no"]

_BROUGHT_BY_THE_LOOP = frozenset({"user_input", "response"})


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a judge.

    Args:
        name: Its name, a keyword of `judges.load`.
        type: The values it takes, as Python writes types.
        default: What counts where it is not set, as Python writes it; empty if it is required.
        required: Whether it must be set.
        meaning: What it does.
        example: How one might set it: `k=5`.
        shared: Whether it means the same in all judges that have it, such as `model` and `threshold`.
    """

    name: str
    type: str
    default: str = ""
    required: bool = False
    meaning: str = ""
    example: str = ""
    shared: bool = False

    def __str__(self) -> str:
        default = "" if self.required else f" = {self.default}"
        return f"{self.name}: {self.type}{default}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A judge's entry in the catalogue.

    Args:
        name: Its qualified name: the source and the reference's own name in snake case, `"ragas.faithfulness"`.
        asks: The question it answers, in one sentence.
        needs: Required fields of a sample.
        calls: Model calls for one sample, as a formula: n contexts, t topics, k repeats.
        reads: Criteria that it reads where a sample has them: `guidelines`, `rubrics`.
        aliases: Other names to load it by.
        scale: What `Verdict.value` ranges over.
        better: Whether a high or a low value is good; `Verdict.score` is always high when things are good.
        subject: What is judged. If it is the retriever, rewriting the answer cannot help.
        source: Who defined it: project, paper or page.
        differs: Where `variant="corrected"` differs from the source, and why.
        extra: The package extra it needs; empty where the core suffices.
        tags: Words to find it by besides its names: synonyms, and what it guards against.
        examples: How one might set its settings, one of each, as Python writes them: `"k=5"`. Choices and switches
            need none.
        follows: Which generation of the source's classes `variant="compat"` reproduces, where the source has two.
    """

    name: str
    asks: str
    needs: tuple[str, ...]
    calls: str = "0"
    reads: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    scale: str = "0 to 1"
    better: _Better = "high"
    subject: Subject = "answer"
    source: str = ""
    differs: str = ""
    extra: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    follows: str = ""

    @property
    def in_loop(self) -> _InLoop:
        """Whether its feedback can better an answer in the loop.

        What the retriever found, and turns that are over, cannot be written again; an agent can act again. A judge
        of the answer that needs more than question and answer needs `evidence=`, or a generator that brings it.
        """
        if self.subject in ("retriever", "conversation"):
            return "no"
        if self.subject == "agent":
            return "with an agent"
        return "yes" if _BROUGHT_BY_THE_LOOP.issuperset(self.needs) else "with evidence"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a judge will do, known before anything is spent; `str()` formats it for people.

    Args:
        judge: The judge's name.
        asks: The question it answers.
        needs: Required fields of a sample.
        reads: Further fields that it reads where a sample has them.
        calls: Model calls for one sample, as a formula; see `Entry`.
        scale: What `Verdict.value` ranges over.
        better: Whether a high or a low value is good.
        variant: `"corrected"` or `"compat"`; empty where there is only one form.
        models: The models it asks.
        prompts: Its instructions to them, by the name of their file in a pack.
        parts: The judges inside it.
        settings: The settings of its class, its own before those that all judges share.
    """

    judge: str
    asks: str = ""
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    calls: str = "0"
    scale: str = "0 to 1"
    better: _Better = "high"
    variant: str = ""
    models: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Explanation, ...] = ()
    settings: tuple[Setting, ...] = ()

    @classmethod
    def of_parts(cls, judge: str, parts: Sequence[Explanation], **overrides: Any) -> Explanation:
        """Explain a judge made of judges: it has the needs and the calls of all its parts."""
        calls = [part.calls for part in parts if part.calls != "0"]
        needs = tuple(dict.fromkeys(need for part in parts for need in part.needs))
        reads = tuple(dict.fromkeys(field for part in parts for field in part.reads))
        models = tuple(dict.fromkeys(model for part in parts for model in part.models))
        fields = {"needs": needs, "reads": reads, "calls": " + ".join(calls) or "0", "models": models, **overrides}
        return cls(judge=judge, parts=tuple(parts), **fields)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.judge}: {self.asks}" if self.asks else self.judge
        summary = {
            "needs": ", ".join(self.needs),
            "calls": self.calls,
            "scale": self.scale + (", low is good" if self.better == "low" else ""),
            "variant": self.variant,
            "models": ", ".join(self.models),
            "settings": ", ".join(setting.name for setting in self.settings),
        }
        yield from (f"  {name:<8} {text}" for name, text in summary.items() if text)
        for setting in (setting for setting in self.settings if not setting.shared):
            meaning = "\n".join(
                filter(None, (setting.meaning, setting.example and f"for example {setting.example}"))
            )
            yield f"  setting {setting}" + (f"\n{indent(meaning, '    ')}" if meaning else "")
        for name, text in self.prompts.items():
            yield f"  prompt {name!r}:\n{indent(text, '    | ', lambda _: True)}"
        for part in self.parts:
            yield indent(str(part), "  ")


SHARED = ("model", "temperature", "multimodal", "name", "variant", "threshold", "language", "prompts")
"""Settings that mean the same in every judge that has them; a judge that gives an example of one has its own."""

_NEEDED_MODEL = 'A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.'
"""What is said of a model that a judge cannot do without, although its signature leaves it open."""

_INTERNAL = frozenset({"self", "question", "questions", "fills"})
_LOOSE_TYPES = {"model": "str | chat model | JudgeModel", "embeddings": "str | Embeddings | EmbeddingModel"}
_SHARED_EXAMPLES = {
    "model": 'model="openai:gpt-5-mini"',
    "temperature": "temperature=None",
    "multimodal": "multimodal=True",
    "name": 'name="mine"',
    "variant": 'variant="compat"',
    "threshold": "threshold=0.8",
    "language": 'language="zh"',
    "prompts": 'prompts="my_prompts"',
}
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
_MEANING = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"(\w+)=(.*)", re.DOTALL)
_MOST_CLASSES = 1024


@lru_cache(maxsize=_MOST_CLASSES)
def settings_of(make: Callable[..., object]) -> tuple[Setting, ...]:
    """Return the settings of a judge's class or factory: required ones first, shared ones last.

    What cannot be read, such as the signature of a builtin, is left out.
    """
    settings = [_setting(make, name, *typed) for name, typed in _parameters(make).items()]
    return tuple(sorted(settings, key=_place))


@dataclass(frozen=True)
class Accepted:
    """What a class takes.

    Args:
        names: By name.
        by_position: How many by position; None where any number.
    """

    names: frozenset[str]
    by_position: int | None


@lru_cache(maxsize=_MOST_CLASSES)
def accepted_by(kind: type) -> Accepted | None:
    """Return what a class takes when it is made; None where it has no signature, or takes any setting."""
    make = next(_makers(kind), None)
    parameters = () if make is None else _signature(make)[1:]
    if make is None or not parameters:
        return None
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    for rest in (one for one in parameters if one.kind is one.VAR_KEYWORD):
        passed_on = _unpacked(_hints(make).get(rest.name))
        if passed_on is None:
            return None
        names |= passed_on
    kinds = [one.kind for one in parameters]
    positional = sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds
    )
    return Accepted(frozenset(names), None if inspect.Parameter.VAR_POSITIONAL in kinds else positional)


def load_line(make: Callable[..., object]) -> str:
    """Return a line that loads a judge of the catalogue, with what it cannot do without, or else with one setting.

    Args:
        make: Its class or factory; without an entry there is no such line, and it is empty.
    """
    entry = getattr(make, "entry", None)
    if not isinstance(entry, Entry):
        return ""
    settings = settings_of(make)
    model = [setting.example for setting in settings if setting.name == "model"]
    needed = [setting for setting in settings if setting.required and setting.name != "model"]
    required = [setting.example or f"{setting.name}=..." for setting in needed]
    chosen = ", ".join([*model, *(required or entry.examples[:1])])
    return f'judges.load("{entry.name}"{chosen and ", "}{chosen})'


def _place(setting: Setting) -> tuple[bool, int, bool]:
    return setting.shared, SHARED.index(setting.name) if setting.shared else 0, not setting.required


def _setting(make: Callable[..., object], name: str, hint: object, default: object) -> Setting:
    shared = name in SHARED and name not in _own_examples(make)
    example = (
        _SHARED_EXAMPLES[name] if shared else _examples(make).get(name) or _obvious_example(name, hint, default)
    )
    meaning = _meaning(make, name)
    required = default is inspect.Parameter.empty or meaning == _NEEDED_MODEL
    return Setting(
        name=name,
        type=_LOOSE_TYPES.get(name) or _type_text(hint),
        default="" if required else _default_text(default),
        required=required,
        meaning=meaning,
        example=example,
        shared=shared,
    )


def _parameters(make: Callable[..., object]) -> dict[str, tuple[object, object]]:
    """Return type and default of each setting by name, in order; a class may pass settings on to its bases."""
    settings: dict[str, tuple[object, object]] = {}
    passed_on: set[str] | None = None
    for function in _makers(make):
        parameters = _signature(function)
        hints = _hints(function)
        for parameter in parameters:
            named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if named and parameter.name not in _INTERNAL and (passed_on is None or parameter.name in passed_on):
                hint = hints.get(parameter.name, parameter.annotation)
                settings.setdefault(parameter.name, (hint, parameter.default))
        rest = next((parameter for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), None)
        if rest is None:
            break
        names = _unpacked(hints.get(rest.name))
        passed_on = names if passed_on is None or names is None else passed_on & names
    return settings


def _makers(make: Callable[..., object]) -> Iterator[Callable[..., object]]:
    """Yield the functions that take the settings: of a class its `__init__`, and those of its bases."""
    if isinstance(make, type):
        yield from (vars(kind)["__init__"] for kind in make.__mro__[:-1] if "__init__" in vars(kind))
    else:
        yield make


def _signature(function: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def _hints(function: Callable[..., object]) -> Mapping[str, object]:
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations of another package may name what cannot be found
        return {}


def _unpacked(hint: object) -> set[str] | None:
    """Return the names that `**settings: Unpack[SomeSettings]` passes on; None where any are."""
    (kind,) = get_args(hint) if get_origin(hint) is Unpack else (None,)
    return set(get_type_hints(kind)) if is_typeddict(kind) else None


def _meaning(make: Callable[..., object], name: str) -> str:
    """Return what the docstrings say of a setting; those of the class itself count before those of its bases."""
    kinds = make.__mro__ if isinstance(make, type) else (make,)
    return next((text for kind in kinds if (text := _meanings(kind.__doc__ or "").get(name))), "")


@lru_cache(maxsize=_MOST_CLASSES)
def _meanings(docstring: str) -> Mapping[str, str]:
    first, _, rest = docstring.partition("\n")
    sections = _SECTION.findall(f"{first}\n{dedent(rest)}\n")
    return {name: " ".join(text.split()) for section in sections for name, text in _MEANING.findall(section)}


def _examples(make: Callable[..., object]) -> Mapping[str, str]:
    """Return the examples that the entries of a class and of its bases give, by setting."""
    kinds = make.__mro__ if isinstance(make, type) else (make,)
    examples: dict[str, str] = {}
    for kind in reversed(kinds):
        examples |= _own_examples(kind)
    return examples


def _own_examples(make: object) -> Mapping[str, str]:
    entry = vars(make).get("entry") if isinstance(make, type) else getattr(make, "entry", None)
    texts = entry.examples if isinstance(entry, Entry) else ()
    return {match[1]: text for text in texts if (match := _EXAMPLE.fullmatch(text))}


def _obvious_example(name: str, hint: object, default: object) -> str:
    """Return an example of a switch, a choice or a list of choices: the first value that is not the default."""
    choices = [member for member in (get_args(hint) or (hint,)) if member is not type(None)]
    if hint is bool or choices == [bool]:
        return f"{name}={not default}"
    words = get_args(hint) if get_origin(hint) is Literal else _words(choices)
    return next((f'{name}="{word}"' for word in words if word != default and isinstance(word, str)), "")


def _words(members: list[object]) -> tuple[object, ...]:
    return next((get_args(member) for member in members if get_origin(member) is Literal), ())


def _default_text(default: object) -> str:
    if isinstance(default, str | Mapping):
        return json.dumps(default if isinstance(default, str) else dict(default), ensure_ascii=False, default=str)
    return default.__name__ if isinstance(default, type) else repr(default)


def _type_text(hint: object) -> str:
    """Return a type as one would read it: choices by their values, classes by their names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(map(repr, arguments)).replace("'", '"')
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type_text, arguments)))
    if hint is type(None) or hint is None:
        return "None"
    if origin is Callable:
        return "function"
    name = getattr(origin or hint, "__name__", str(hint)).removeprefix("typing.")
    return f"{name}[{', '.join(map(_type_text, arguments))}]" if arguments else name
