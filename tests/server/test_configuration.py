"""The configuration: where a value comes from, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError
from judges.verdict import Verdict
from refine.server.assembly import _make_guards, make_service
from refine.server.config import load_settings, unknown_variables
from refine.server.running import _describe
from tests.snippets import ROOT, blocks

MODEL = 'judge_model = "m"\njudge_base_url = "http://127.0.0.1:9/v1"\n'
GOOD = 'upstream = "http://127.0.0.1:9/v1"\njudge = "tests.guarding:rates"\n'


def written(folder: Path, text: str) -> Path:
    """Write a configuration."""
    file = folder / "refine.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_flags_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag wins over the environment, and that over the file; nested settings have two underscores."""
    file = written(tmp_path, GOOD + "port = 1\nmax_attempts = 1\nsuccess_rating = 1\n[policy]\npatience = 2\n")
    monkeypatch.setenv("REFINE_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("REFINE_SUCCESS_RATING", "2")
    monkeypatch.setenv("REFINE_POLICY__MAX_CALLS", "9")
    settings = load_settings(file, {"success_rating": 4, "port": None})
    assert (settings.port, settings.max_attempts, settings.success_rating) == (1, 5, 4)
    (guard,) = _make_guards(settings)
    assert (guard.loop.policy.max_calls, guard.loop.policy.patience) == (9, 2)


def test_guards_inherit_what_stands_at_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard has its own settings over those at the top, policies by setting; keys come from the environment."""
    monkeypatch.setenv("OPERATORS", "sk-operator")
    text = f"""
{GOOD}{MODEL}
upstream_key = "env:OPERATORS"
default_guard = "second"
[policy]
patience = 1
deadline_s = 9
[guards.first]
judge = "helpfulness"
models = ["gpt-*"]
fail = "closed"
[guards.first.policy]
patience = 3
[guards.first.policy.overrides.2]
temperature = 0.7
model = "bigger"
[guards.second]
judge = "length"
judge_settings = {{ at_most = 9 }}
reveal = ["feedback"]
[guards.second.bounds]
max_attempts = 5
"""
    second, first = _make_guards(load_settings(written(tmp_path, text), {}))
    assert (first.name, second.name) == ("first", "second")
    policy = first.loop.policy
    assert (policy.patience, policy.deadline_s, policy.on_judge_error) == (3, 9, "raise")
    assert (policy.override(2).temperature, first.attempt_models) == (0.7, {2: "bigger"})
    assert first.judge.models[0].name == "m"
    assert first.upstream is not None
    assert first.upstream.credentials({"x-api-key": "sk-caller"}, "authorization") == {
        "authorization": "Bearer sk-operator"
    }
    assert second.bounds.max_attempts == 5
    assert _describe(first).startswith("guard first: judge helpfulness (m), upstream http://127.0.0.1:9, accepted")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("port = 'x'", ["refine.toml: port = 'x'", "integer"]),
        ("port = 99999", ["port = 99999", "65535"]),
        ("prot = 1", ["prot is no setting", "did you mean 'port'?"]),
        (GOOD + "[guards.a]\nmax_atempts = 1", ["guards.a.max_atempts is no setting", "'max_attempts'"]),
        (GOOD + "[guards.a]\nmax_attempts = 0", ["guards.a.max_attempts = 0", "greater than or equal to 1"]),
        (GOOD + "[guards.a]\njudge = 'helpfulnes'", ["guards.a.judge = 'helpfulnes'", "did you mean helpfulness"]),
        (GOOD + "[guards.a]\njudge = 'nowhere:judge'", ["guards.a.judge = 'nowhere:judge'", "cannot be imported"]),
        (GOOD + "[guards.a]\njudge = 'tests.guarding:nothing'", ["nothing", "module:object"]),
        (GOOD + "judge_settings = {x = 1}", ["judge = ", "leave them out"]),
        (GOOD + "[guards.'a b']\n", ["guards.a b = 'a b'", "1 to 64 letters"]),
        (GOOD + "[policy]\npatiense = 1", ["policy = ", "did you mean 'patience'?"]),
        (GOOD + "[policy]\non_exhausted = 'interrupt'", ["on_exhausted = 'interrupt'", "use 'best'"]),
        (GOOD + "[policy]\non_exhausted = 'fallback'", ["needs fallback='the text to return'"]),
        (GOOD + "[policy]\nshow_drafts = true", ["show_drafts is no setting of a guard"]),
        (GOOD + "[policy.overrides.two]\nmodel = 'x'", ["overrides is a table by number of attempt"]),
        (GOOD + "[policy]\non_judge_error = 'raise'\n[guards.a]\nfail = 'open'", ["leave one out"]),
        (GOOD + "on_refusal = 'mned'", ["on_refusal = 'mned'", "'retry', 'mend'"]),
        (GOOD + "on_refusal = { lenght = 'mend' }", ["on_refusal names the judge 'lenght'"]),
        (GOOD + "[guards.a]\nrelease = 'pieces'", ["guards.a.release='pieces' needs", "name a piece_judge"]),
        (GOOD + "piece_judge = 'nowhere'", ["piece_judge = 'nowhere'"]),
        (GOOD + "[bounds]\nmax_atempts = 1", ["bounds = ", "did you mean 'max_attempts'?"]),
        (GOOD + "default_guard = 'b'\n[guards.a]", ["default_guard = 'b'", "known are a"]),
        (GOOD + "[[keys]]\nname = 'a'\nsha256 = 'secret-key'", ["keys.0.sha256 = ...", "match"]),
        (
            GOOD + "[[keys]]\nname = 'a'\nsha256 = '" + "0" * 64 + "'\nguards = ['x']",
            ["keys.0.guards", "no such guard"],
        ),
        (GOOD + "upstream_key = 'env:NOT_THERE'", ["upstream_key", "NOT_THERE", "set it"]),
        (GOOD + "upstream_key = 'env:'", ["upstream_key = 'env:'", "write env:NAME"]),
        (GOOD + "drain_s = '30s'", ["drain_s = '30s'", "a number of seconds, such as 30"]),
        (GOOD + "trace_url = 'http://x'", ["trace_url = ...", "with {trace_id}"]),
        (GOOD + "[[webhooks]]\nurl = 'x'\nsecret = 'y'", ["webhooks.0.url = ...", "write https://"]),
        (GOOD + "judge_model = ' '", ["judge_model is empty", "leave it out"]),
        ("upstream = 'localhost:9'\njudge = 'length'", ["judge = 'length'"]),
        (
            "upstream = 'ftp://x'\njudge = 'tests.guarding:rates'",
            ["upstream = 'ftp://x'", "http or https address"],
        ),
        *(
            (f"upstream = {address!r}\njudge = 'tests.guarding:rates'", ["upstream = ", "http or https address"])
            for address in ("http://[::1/v1", "http://a b/v1", "http://x:99999/v1")
        ),
        ("judge = 'helpfulness'", ["judge = 'helpfulness'", "--judge-model NAME with --judge-base-url URL"]),
        ("judge = 'helpfulness'\njudge_model = 'm'", ["judge_model = 'm'", "'openai:m'"]),
        ("judge = 'helpfulness'\njudge_base_url = 'http://x/v1'", ["needs judge_model"]),
        ("judge = 'helpfulness'\njudge_model = 'm'\njudge_base_url = 'h'", ["judge_base_url = 'h'", "http://"]),
        (GOOD + "[guards.a]\njudge_key = 'secret-key'", ["guards.a.judge_key is for judge_base_url"]),
        (GOOD.replace("/v1", "/v1/chat/completions"), ["upstream = ", "leave out /chat/completions"]),
        (GOOD.replace("//", "//me:secret-key@"), ["upstream = 'http://...@", "set upstream_key"]),
        (GOOD + "max_attempts = true", ["max_attempts = True", "a number is wanted"]),
        (GOOD + "keep_alive_s = true", ["keep_alive_s = True", "a number is wanted"]),
        (GOOD + "record = true", ["record = True", "name a file or the URL of a database"]),
        (GOOD + "pass_through = 'audio/*'", ["pass_through = 'audio/*'", 'write ["audio/*"]']),
        (GOOD + "[guards.a]\nmodels = 'gpt-*'", ["guards.a.models = 'gpt-*'", 'write ["gpt-*"]']),
        (GOOD + "keys = 'secret-key'", ["keys = ...", "`refine key NAME` prints"]),
        ("", ["there is no judge", "--judge helpfulness"]),
        ("port = ", ["refine.toml is not TOML"]),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path: Path, text: str, parts: list[str]) -> None:
    """What is wrong stops at the start with one line: the key, its value, and what to do; never a secret."""
    with pytest.raises(ConfigurationError) as raised:
        make_service(load_settings(written(tmp_path, text), {}))
    line = str(raised.value)
    assert "\n" not in line
    assert [part for part in parts if part not in line] == [], line
    assert "secret-key" not in line


def test_a_missing_file_and_unknown_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there is an error; a variable that looks like a setting and is none is reported."""
    with pytest.raises(ConfigurationError, match="No such file"):
        load_settings(tmp_path / "none.toml", {})
    environment = {"REFINE_MAX_ATEMPTS": "1", "REFINE_PORT": "1", "REFINE_POLICY__PATIENCE": "1", "OTHER": "1"}
    (line,) = unknown_variables(environment)
    assert "REFINE_MAX_ATEMPTS" in line
    assert "did you mean REFINE_MAX_ATTEMPTS?" in line


def test_a_wrong_value_is_said_to_stand_where_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong flag is not laid at the file's door, and a variable of the environment is called by its name."""
    file = written(tmp_path, GOOD)

    def line(**flags: Any) -> str:
        with pytest.raises(ConfigurationError) as raised:
            load_settings(file, flags)
        return str(raised.value)

    assert line(success_rating=9).startswith("success_rating = 9: ")
    for name, value, start in [
        ("REFINE_MAX_ATTEMPTS", "two", "REFINE_MAX_ATTEMPTS in the environment: max_attempts = 'two': "),
        (
            "REFINE_GUARDS__A__MAX_ATTEMPTS",
            "0",
            "REFINE_GUARDS__A__MAX_ATTEMPTS in the environment: guards.a.max_",
        ),
        ("REFINE_GUARDS", '{"a": {"max_attempts": 0}}', "REFINE_GUARDS in the environment: guards.a.max_attempts"),
        (
            "REFINE_GUARDS__A__MODELS",
            "gpt",
            "REFINE_GUARDS__A__MODELS in the environment cannot be read: a list is",
        ),
        ("REFINE_POLICY", "{broken secret-key", "REFINE_POLICY in the environment cannot be read: "),
    ]:
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert line().startswith(start), line()
            assert "secret-key" not in line()


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration in docs/guard.md can be used as it stands."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    example, *_ = blocks((ROOT / "docs/guard.md").read_text(encoding="utf-8"), "toml")
    service = make_service(load_settings(written(tmp_path, example), {}))
    support, facts = service.guards
    assert (support.loop.policy.max_attempts, support.loop.policy.on_judge_error) == (2, "raise")
    assert facts.attempt_models == {2: "gpt-5"}


class Picky:
    """A judge's class of one's own, for `module:object`."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, answer: str) -> Verdict:
        """Judge by a word."""
        return Verdict.checked(self.word in answer)


def test_a_judge_of_ones_own(tmp_path: Path) -> None:
    """`module:object` names a function, or a class that takes the settings."""
    fields: dict[str, Any] = {"judge": "tests.server.test_configuration:Picky", "judge_settings": {"word": "yes"}}
    (guard,) = _make_guards(load_settings(None, {"upstream": "http://127.0.0.1:9/v1", **fields}))
    assert guard.judge(answer="yes").rating == 4
    assert guard.judge(answer="no").rating == 1
