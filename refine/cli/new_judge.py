"""The command `refine new-judge`: a package with a judge, its prompts and its test, to begin with."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

from judges import ConfigurationError
from judges.catalogue.registry import default_registry
from judges.errors import shortened
from refine.cli.options import NewJudgeOptions

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$package"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["selfrefine"]

[project.entry-points."selfrefine.judges"]
$word = "$package:$kind"

[tool.hatch.build.targets.wheel]
packages = ["$package"]
"""

_INIT = '''\
"""The judge $name."""

from $package.judge import $kind

__all__ = ["$kind"]
'''

_JUDGE = '''\
"""The judge $name: one question to a model, and what follows from its reply."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from pydantic import Field

from judges.authoring import (
    Deliberation,
    Entry,
    ModelJudge,
    ModelSettings,
    Question,
    ReplySchema,
    Sample,
    answer_in,
    question_in,
)


class Reply(ReplySchema):
    """What the model replies: the reason first, so that it decides."""

    reason: str = Field(description="text: what in the answer decides")
    is_good: bool = Field(description="true or false")


_QUESTION = Question(prompt="$word", reply=Reply)


class $kind(ModelJudge):
    """Judge an answer; packs/en/$word.toml says by what."""

    entry = Entry(
        name="$name", asks="Does the answer keep to $word?", needs=("user_input", "response"), calls="1"
    )
    pack = "$word"
    pack_folder = Path(__file__).parent / "packs"

    def __init__(self, model: object, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=[_QUESTION], **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask the question, and return the verdict."""
        data = {"question": question_in(sample), "answer": answer_in(sample)}
        reply = yield from self.ask(_QUESTION, sample, data)
        feedback = "" if reply.is_good else self.say("bad", sample, reason=reply.reason)
        return self.verdict(float(reply.is_good), rationale=reply.reason, feedback=feedback)
'''

_PACK = """\
# What the model is asked. Other languages lie beside it, packs/ru/$word.toml; English stands in for missing ones.
task = "Judge whether the `answer` to the `question` is written in a friendly and plain way."
reminder = "Say first what in the answer above decides, then true if it is friendly and plain, else false."
feedback.bad = "Write in a more friendly and plain way. $$reason"
"""

_TEST = '''\
"""The judge $name, with replies by script instead of a model."""

from __future__ import annotations

from $package import $kind
from judges.testing import ScriptedModel, raising


def test_a_good_answer_passes() -> None:
    """What the model calls good passes, and nothing is fed back."""
    judge = $kind(ScriptedModel([{"reason": "It greets.", "is_good": True}]))
    with raising():
        verdict = judge(question="Where is my parcel?", answer="Good morning! It arrives today.")
    assert (verdict.passed, verdict.feedback) == (True, "")


def test_a_bad_answer_is_sent_back_with_the_reason() -> None:
    """The feedback of the pack holds the reason."""
    judge = $kind(ScriptedModel([{"reason": "It is rude.", "is_good": False}]))
    with raising():
        verdict = judge(question="Where is my parcel?", answer="No idea.")
    assert not verdict.passed
    assert "It is rude." in verdict.feedback
'''

_FILES: Mapping[str, str] = {
    "pyproject.toml": _PYPROJECT,
    "$package/__init__.py": _INIT,
    "$package/judge.py": _JUDGE,
    "$package/py.typed": "",
    "$package/packs/en/$word.toml": _PACK,
    "tests/test_$word.py": _TEST,
}


def write_new_judge(options: NewJudgeOptions) -> int:
    """Write the files of a judge, say what to do next, and return the exit code.

    Raises:
        ConfigurationError: If the name cannot be one or is taken, or the folder is there already.
    """
    _check_name(options.name)
    word = options.name.rpartition(".")[2]
    names = {
        "name": options.name,
        "word": word,
        "package": f"{options.name.replace('.', '_')}_judge",
        "kind": "".join(part.capitalize() for part in word.split("_")),
    }
    folder = options.out or Path(options.name.replace(".", "-").replace("_", "-"))
    if folder.exists():
        raise ConfigurationError(f"{str(folder)!r} is there already; choose another --out, or delete it first")
    for name, content in _FILES.items():
        file = folder / Template(name).substitute(names)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(content).substitute(names), encoding="utf-8")
    pack = folder / names["package"] / "packs" / "en" / f"{word}.toml"
    sys.stdout.write(
        f"{folder}: say in {pack} what to judge, then\n"
        f"  pip install -e {folder}\n"
        f"  pytest {folder}\n"
        f"  refine evaluate rows.jsonl --judge {options.name} --model openai:gpt-5-mini\n"
    )
    return 0


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"a judge's name is of small letters, digits and _, such as tone or shop.tone, not {shortened(name)}"
        )
    known = {one for entry in default_registry().entries.values() for one in (entry.name, *entry.aliases)}
    if name in known:
        raise ConfigurationError(f"there is a judge {name!r} already; `refine judges {name}` shows it")
