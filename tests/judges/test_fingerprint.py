"""Fingerprints: the same in every process, another for whatever a verdict depends on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import judges
from judges import Cascade, Helpfulness, Length, Panel, Rubric, Sample, as_judge
from judges.fingerprint import fingerprint
from judges.testing import ScriptedModel

_ALL = """
import judges
from judges.fingerprint import fingerprint
from judges.testing import ScriptedModel

for entry in judges.catalogue():
    try:
        judge = judges.load(entry.name, model=ScriptedModel([{}], cycle=True))
    except (judges.ConfigurationError, TypeError):
        continue
    print(entry.name, fingerprint(judge))
"""


def fingerprints_of_the_catalogue() -> dict[str, str]:
    """Return the fingerprints of the judges that need a model alone, computed by a process with another seed."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    run = subprocess.run([sys.executable, "-c", _ALL], capture_output=True, text=True, check=True, env=environment)
    return dict(line.split() for line in run.stdout.splitlines())


def test_every_process_computes_the_same_fingerprints() -> None:
    """No address, order of a set or random number enters; no two judges of the catalogue share one."""
    theirs = fingerprints_of_the_catalogue()
    ours = {name: fingerprint(judges.load(name, model=ScriptedModel([{}], cycle=True))) for name in theirs}
    assert ours == theirs
    assert len(theirs) > 30
    assert len(set(theirs.values())) == len(theirs)


def test_whatever_a_verdict_depends_on_changes_the_fingerprint() -> None:
    """Settings, models, members, criteria, and the code and values of functions."""
    model = ScriptedModel([{}], name="one")

    def bound(limit: int) -> Callable[[Sample], bool]:
        return lambda sample: len(sample.answer or "") < limit

    different = [
        Length(at_most=3),
        Length(at_most=4),
        Length(at_most=3, name="short"),
        Helpfulness(model),
        Rubric(model, criteria="Polite.", levels={1: "no", 4: "yes"}),
        Rubric(model, criteria="Kind.", levels={1: "no", 4: "yes"}),
        Panel([Length(at_most=3), Length(at_least=1, name="long")]),
        Cascade([Length(at_most=3), Length(at_least=1, name="long")]),
        as_judge(lambda sample: True, name="check"),
        as_judge(lambda sample: False, name="check"),
        as_judge(bound(3), name="check"),
        as_judge(bound(4), name="check"),
    ]
    assert len({fingerprint(judge) for judge in different}) == len(different)
    assert fingerprint(as_judge(bound(3), name="check")) == fingerprint(as_judge(bound(3), name="check"))


def test_a_word_of_a_prompt_changes_the_fingerprint(tmp_path: Path) -> None:
    """A prompt file of the user's with another word is another judge."""
    model = ScriptedModel([{}])
    source = Path(judges.__file__).parent / "packs" / "en" / "helpfulness.toml"
    (tmp_path / "en").mkdir()
    copy = tmp_path / "en" / "helpfulness.toml"
    copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    before = fingerprint(Helpfulness(model, prompts=tmp_path))
    copy.write_text(source.read_text(encoding="utf-8").replace("helpful", "useful", 1), encoding="utf-8")
    assert fingerprint(Helpfulness(model, prompts=tmp_path)) != before


def test_work_leaves_the_fingerprint_as_it_is() -> None:
    """What a judge computed and kept while it worked does not count."""
    judge = Helpfulness(ScriptedModel([{"rationale": "r", "feedback": "", "rating": 4}], cycle=True))
    before = fingerprint(judge)
    judge(user_input="q", response="a")
    judge.explain()
    assert fingerprint(judge) == before
