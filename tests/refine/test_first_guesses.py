"""First guesses at a setting work, or are refused in one line that says what to write instead."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langchain.agents import create_agent
from pydantic import SecretStr
from typer.testing import CliRunner

import refine
from graphs import Bounds, GeneratorFailed, NotAccepted, Policy, self_refine
from judges import (
    ConfigurationError,
    Helpfulness,
    Length,
    Limiter,
    OpenAICompatible,
    Panel,
    Price,
    Sample,
    Verdict,
    as_judge,
    first_guesses,
    known_prices,
    load,
    offline,
)
from judges.models.providers.embeddings import OpenAICompatibleEmbeddings
from judges.offline import evaluate
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine, middleware
from refine.cli.app import app
from refine.server.config import load_settings
from tests.laws import for_every

SECRET = "sk-tell-nobody"  # noqa: S105 - of a test
LONGEST = 400

Make = Callable[..., Any]


def refiner(**settings: Any) -> Any:
    """Make a refiner with settings."""
    return SelfRefine(ScriptedModel(["draft"]), ScriptedJudge([1]), **settings)


def graph(**settings: Any) -> Any:
    """Make a graph of the loop with settings."""
    return self_refine(ScriptedModel(["draft"]), ScriptedJudge([1]), **settings)


def client(**settings: Any) -> Any:
    """Make a client with settings."""
    return OpenAICompatible(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "", **settings})


def embedder(**settings: Any) -> Any:
    """Make a client for vectors with settings."""
    usual = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": ""}
    return OpenAICompatibleEmbeddings(**{**usual, **settings})


LOOPS: list[tuple[dict[str, Any], str]] = [
    ({"policy": 5}, "policy is a Policy, or a mapping of its settings such as {'max_attempts': 3}, not 5"),
    ({"policy": {5: 5}}, "policy is a Policy, or a mapping of its settings"),
    ({"policy": {"max_atempts": 2}}, "did you mean 'max_attempts'?"),
    ({"policy": Policy(), "max_calls": 2}, "not both (given also ['max_calls'])"),
    *(
        ({name: 5}, "invoke(question, evidence={'reference': '...'})")
        for name in ("evidence", "reference", "contexts", "retrieved_contexts")
    ),
    ({"name": 5}, "name is a text, not 5"),
    ({"checkpointer": 5}, "a LangGraph checkpointer such as InMemorySaver(), or 'inherit', not 5"),
    ({"max_cost": 1, "prices": {"m": {"input": 1}}}, "setting prices.m.output: field required"),
    ({"max_cost": 1, "prices": [("m", 1)]}, "{'model name': Price(input=..., output=...)}"),
]
HEADERS = [
    *(5, f"key: {SECRET}", SECRET.encode(), [("api-key", SECRET)], {SECRET}),
    *({"api-key": value} for value in (5, None, SECRET.encode(), [SECRET])),
    {5: SECRET},
]
CLIENTS: list[tuple[dict[str, Any], str]] = [
    *(({"headers": headers}, "headers is a mapping from names to texts") for headers in HEADERS),
    *(({"api_key": key}, "api_key is a text, a SecretStr, or None") for key in (5, SECRET.encode(), [SECRET])),
    *(({"retries": retries}, "retries is a whole number from 0") for retries in ("two", -1, 1.5, None)),
]
REFUSED: list[tuple[Make, dict[str, Any], str]] = [
    *((make, settings, remedy) for make in (refiner, graph) for settings, remedy in LOOPS),
    *((make, settings, remedy) for make in (client, embedder) for settings, remedy in CLIENTS),
    (refiner, {"record": 5}, "record is a path, a URL such as"),
    (refiner, {"durability": "never"}, "durability is 'sync', 'async' or 'exit', not 'never'"),
    (Price, {}, "price input: field required"),
    (Price, {"input": 1}, "price output: field required"),
    (Price, {"input": -1, "output": 2}, "price input: input should be greater than or equal to 0 (given -1)"),
    (Price, {"input": "cheap", "output": 2}, "price input: input should be a valid number"),
    (Price, {"input": float("nan"), "output": 2}, "price input: input should be a finite number"),
    (Price, {"inputs": 1, "output": 2}, "a price is Price(input=0.25, output=2.0), US dollars per million tokens"),
    (Price, {"input": 1, "output": 2, "cached": 1}, "price cached: extra inputs are not permitted"),
    (known_prices, {"own": [("m", 1)]}, "known_prices takes a mapping"),
    (known_prices, {"own": {"m": 1}}, "known_prices takes a mapping"),
    *((client, {"extra": extra}, "extra is a mapping from names of fields") for extra in (5, SECRET, {5: SECRET})),
    *((client, {"endings": endings}, "endings is a list of texts") for endings in (5, [5])),
    (client, {"temperature": "hot"}, "temperature is a finite number, not 'hot'"),
    (client, {"temperature": -1}, "temperature is a number from 0, not -1"),
    (client, {"max_tokens": "many"}, "max_tokens is a whole number from 1, not 'many'"),
    (embedder, {"dimensions": 0}, "dimensions is a whole number from 1, not 0"),
]


@for_every("make, settings, remedy", REFUSED)
def test_a_wrong_setting_is_one_line_with_the_remedy(make: Make, settings: dict[str, Any], remedy: str) -> None:
    """What is wrong is reported where it was written, in a line that says what to write, and shows no secret."""
    with pytest.raises(ConfigurationError) as raised:
        make(**settings)
    message = str(raised.value)
    assert remedy in message
    assert len(message.splitlines()) == 1
    assert len(message) < LONGEST
    assert SECRET not in message


GUESSES: list[tuple[dict[str, Any], str]] = [
    ({"threshold": 3}, "use success_rating=3, the rating from 1 to 4 at which an answer is accepted"),
    ({"threshold": 0.8}, "use success_rating=3, "),
    ({"min_score": 1.0}, "use success_rating=4, "),
    ({"threshold": 1}, "use success_rating=1, "),
    ({"threshold": 7}, "use success_rating, "),
    ({"threshold": "high"}, "use success_rating, "),
    ({"max_iterations": 3}, "use max_attempts, which counts all answers, the first included"),
    ({"max_rounds": 3}, "use max_attempts, "),
    (
        {"retries": 2},
        "use max_attempts=3, which counts all answers, the first included; max_retries is for requests",
    ),
    ({"num_retries": None}, "use max_attempts, "),
    ({"timeout": 30}, "use deadline_s, seconds from the question"),
    ({"budget": 1.0}, "use max_cost, US dollars, which needs prices=known_prices()"),
    ({"on_fail": "raise"}, "use on_exhausted, 'best', 'last', 'raise'"),
    ({"n": 3}, "use candidates, drafts an attempt"),
    ({"temperature": 0.2}, "use overrides, by attempt, for instance overrides={2: {'temperature'"),
    ({"verbose": True}, "use log_texts, "),
    ({"judges": ["length"]}, "the judge is an argument of its own, judge=..., which takes a list of judges, too"),
    ({"llm": "openai:gpt-5"}, "the generator is an argument of its own"),
    ({"callbacks": []}, "it belongs to the call: invoke(question, config={...})"),
    ({"language": "zh"}, "it is a setting of the judge"),
    ({"max_atempts": 3}, "did you mean 'max_attempts'?"),
    ({"colour": 3}, "known are augment, candidates"),
]


@for_every("make, guess, remedy", [(make, *guess) for make in (refiner, graph) for guess in GUESSES])
def test_a_guessed_setting_says_what_to_use(make: Make, guess: dict[str, Any], remedy: str) -> None:
    """A name of another library, or what belongs elsewhere: one line with the setting and its value, if known."""
    with pytest.raises(ConfigurationError) as raised:
        make(**guess)
    message = str(raised.value)
    assert message.startswith(f"there is no policy setting '{next(iter(guess))}'")
    assert remedy in message
    assert len(message.splitlines()) == 1


def test_what_a_guess_points_to_is_there() -> None:
    """Every setting that a hint names is one, and no guess hides a setting."""
    tables = tomllib.loads(Path(first_guesses.__file__).with_name("guesses.toml").read_text(encoding="utf-8"))
    settings, elsewhere = tables["settings of a policy"], [*chain(*tables["not of a policy"].values())]
    assert set(tables["meanings"]) == set(settings) <= set(Policy.model_fields)
    guesses = [*chain(*settings.values(), *tables["retries of a policy"].values())]
    assert len(guesses) == len(set(guesses))
    assert not set(Policy.model_fields) & {*guesses, *elsewhere}
    for make, parameters in ((refiner, signature(SelfRefine)), (graph, signature(self_refine))):
        assert not {*guesses, *elsewhere} & parameters.parameters.keys(), make


def test_what_a_guess_leaves_as_it_is() -> None:
    """A setting of requests, which is one of the policy, too; settings of a request, by the same hints."""
    policy = refiner(max_retries=2).policy
    assert (policy.max_retries, policy.max_attempts) == (2, 3)
    assert refiner(policy={}).policy == Policy()
    with pytest.raises(ConfigurationError, match="use max_attempts=3"):
        Bounds(retries=2)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"there is no bounds setting 'verbose'.*known are"):
        Bounds(verbose=True)  # type: ignore[call-arg]


@for_every(
    "rule, plain",
    [("all", "min"), ("average", "mean"), ("avg", "mean"), ("median", "majority"), ("vote", "majority")],
)
def test_rules_of_a_panel_have_other_names(rule: Any, plain: Any) -> None:
    """They judge as the rule that they mean."""
    for ratings in ((1, 4, 4), (3, 3, 4), (2, 3, 4)):
        members = [ScriptedJudge([rating] * 2, name=f"judge {number}") for number, rating in enumerate(ratings)]
        verdicts = [Panel(members, rule=name)({"answer": "x"}) for name in (rule, plain)]
        assert verdicts[0].rating == verdicts[1].rating


@for_every(
    "rule, line",
    [("any", "'any'; none passes by one member alone: majority"), ("max", "'max'; none"), (3, "not 3")],
)
def test_a_rule_that_is_none_says_which_are(rule: Any, line: str) -> None:
    """And that there is none by which one member suffices."""
    with pytest.raises(
        ConfigurationError, match="rule is one of min, mean, weighted, majority, veto, not"
    ) as raised:
        Panel([ScriptedJudge([4])], rule=rule)
    assert line in str(raised.value)


@for_every("rates", [(1, 2), ({"input": 1},), (5,)])
def test_a_price_without_names_is_refused(rates: tuple[Any, ...]) -> None:
    """Nobody has to know which rate comes first."""
    with pytest.raises(ConfigurationError, match=r"Price\(input=0.25, output=2.0\), .*, with both named, not \("):
        Price(*rates)


@for_every(
    "make, settings",
    [
        (make, settings)
        for make in (refiner, graph)
        for settings in (
            {"policy": {"max_attempts": 1}},
            {"policy": Policy(max_attempts=1)},
            {"max_attempts": 1},
        )
    ],
)
def test_settings_work_in_each_way_they_are_written(make: Make, settings: dict[str, Any]) -> None:
    """A mapping is read as a policy, and settings may stand by themselves, in the refiner and in the graph."""
    answer = make(**settings).invoke({"messages": [("user", "what?")]})["messages"][-1]
    assert answer.response_metadata["refine"]["attempts"][-1]["number"] == 1


def test_a_key_may_be_a_secret() -> None:
    """A `SecretStr`, as LangChain's models take it, is a key like a text."""
    headers = client(api_key=SecretStr(SECRET))._endpoint._headers
    assert headers["authorization"].get_secret_value() == f"Bearer {SECRET}"
    assert SECRET not in repr(headers)


_FIRST_IMPORTS = {
    "refine": "judge judges graph graphs Refiner load as_judge Bounds Middleware Report evaluate_rows self_refin "
    "SelfRefineRunnable LLMJudge load_judge Feedback certify SelfRefineAgent Budget SelfRefineConfig "
    "SQLiteRecord SelfRefineError",
    "graphs": "interrupt StateGraph SelfRefine selfrefine create_graph Judge evaluate Outcomes NotAcceptedError "
    "RefineState SelfRefineGraph build_refine_graph LoopResult",
    "judges": "BaseJudge Evaluation ragas SelfRefine evaluate LLMJudge Faithfulness faithfulness score "
    "RAGEvaluator Helpfullness",
    "judges.catalogue": "load Judge",
    "judges.offline": "evalute load Dataset SelfRefine",
    "judges.testing": "ScriptedModle FakeModel MockJudge Length evaluate",
    "refine.record": "SqlDatabaseRecord SelfRefine",
    "refine.server": "serve RunningGuards",
    "refine.middleware": "JudgeMiddleware Middleware SelfRefineMidleware SelfRefine",
}


def test_a_first_guess_at_an_import_says_what_to_import() -> None:
    """`from package import name` tells as much as `package.name`, which stays an AttributeError."""
    silent = []
    for package, names in _FIRST_IMPORTS.items():
        for name in names.split():
            with pytest.raises(ImportError) as raised:
                exec(f"from {package} import {name}")  # noqa: S102 - as a user writes it
            with pytest.raises(AttributeError) as missing:
                getattr(importlib.import_module(package), name)
            _, separator, hint = str(missing.value).partition("; ")
            if not (separator and str(raised.value) == f"cannot import name {name!r} from {package!r}; {hint}"):
                silent.append((package, name, str(raised.value)))
    assert silent == []
    assert not hasattr(refine, "Refiner")


_FIRST_MODULES = {
    "refine.loop": "from refine import SelfRefine",
    "refine.agents": "from refine import SelfRefineMiddleware",
    "refine.judges": "it is judges: from judges import",
    "refine.testing": "it is judges.testing: from judges.testing import",
    "refine.offline": "it is judges.offline: from judges.offline import",
    "refine.evaluation": "from judges.offline import evaluate",
    "refine.guard": "from refine.server import RunningGuard",
    "refine.policy": "from refine import Policy",
    "refine.exceptions": "from refine import NotAccepted",
    "judges.ragas": "from judges import load",
    "judges.llm": "from judges import load",
    "judges.models.xyzzy": "the packages are graphs, judges, judges.authoring",
    "graphs.nodes": "from refine import SelfRefine",
    "judges.panel": "from judges import Panel",
    "judges.rubric": "from judges import Rubric",
}


def test_a_module_that_there_is_not_says_what_to_import() -> None:
    """With the error that Python raises; of any other package, and of private names, it says nothing."""
    silent = []
    for module, remedy in _FIRST_MODULES.items():
        with pytest.raises(ModuleNotFoundError) as raised:
            importlib.import_module(module)
        if (
            raised.value.name != module
            or f"No module named {module!r}; " not in str(raised.value)
            or remedy not in str(raised.value)
            or "\n" in str(raised.value)
        ):
            silent.append((module, str(raised.value)))
    for module in ("refine._xyzzy", "json.xyzzy", "xyzzy"):
        with pytest.raises(ModuleNotFoundError, match=r"^No module named [^;]*$"):
            importlib.import_module(module)
    assert silent == []


def test_a_name_with_nothing_similar_is_told_what_there_is() -> None:
    """Where it is imported; as an attribute it is missing as in any module."""
    with pytest.raises(ImportError, match=r"^cannot import name 'xyzzy' from 'refine'; it has Arm, Attempt, "):
        exec("from refine import xyzzy")  # noqa: S102 - as a user writes it
    with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
        getattr(refine, "xyzzy")  # noqa: B009 - the name is missing


def test_refine_is_the_front_door() -> None:
    """What an application needs first is imported from one package, which loads each on first use."""
    assert refine.SelfRefine is SelfRefine
    assert refine.self_refine is self_refine
    assert refine.NotAccepted is NotAccepted
    assert (refine.evaluate, refine.compare) == (offline.evaluate, offline.compare)
    assert refine.SelfRefineMiddleware is middleware.SelfRefineMiddleware
    assert all(getattr(refine, name) is not None for name in refine.__all__)


GUESSED_CALLS = (
    ("SelfRefine(3, 4)", "cannot make a judge of 4"),
    ("SelfRefine(ScriptedModel(['x']), 4)", "cannot make a judge of 4"),
    ("SelfRefine(lambda: 'x', Length(at_most=9))", "write def <lambda>(messages)"),
    ("refiner().invoke('what?', 'thread-1')", "config is a mapping such as"),
    ("graph().invoke('what?')", "SelfRefine(generator, judge) takes a text, too"),
    ("evaluate(Length(at_most=9), [{'answer': 'x'}])", "evaluate(rows, judge)"),
    ("evaluate([{'answer': 'x'}], Length(at_most=9), batch_size=3)", "here it is max_concurrency=..."),
    ("client(temprature=0)", "did you mean 'temperature'?"),
    ("Limiter(8, rpm=60)", "here it is requests_per_minute=..."),
    (
        "load('helpfulness', ScriptedModel([]), treshold=3)",
        "did you mean 'threshold'? Here success_rating=... is the rating from which it passes",
    ),
    ("Verdict.rated(5)", "a rating is 1, 2, 3 or 4, not 5"),
    ("refiner(max_attempts=1).refine('what?')['answer']", "it is the attribute .answer"),
    ("refiner(max_attempts=1).refine('what?')['response']", "the answer is outcome.answer"),
    ("Verdict.rated(3)['reason']", "it is rationale"),
    (
        "SelfRefineMiddleware(ScriptedModel(['x']), Length(at_most=9))",
        "create_agent(model, tools, middleware=[SelfRefineMiddleware(judge)])",
    ),
    ("evaluate(['a', 'b'], Length(at_most=9))", "[{'answer': text} for text in texts]"),
    ("graph().compile()", "it is compiled: graph.invoke"),
    ("SelfRefine('q')", "missing 1 required positional argument: 'judge'; write SelfRefine(generator, judge)"),
    ("SelfRefine('q', 'json', 3)", "were given; write SelfRefine(generator, judge)"),
    ("SelfRefine('q', {'a': 'json'})", "give Panel({...})"),
    ("SelfRefine('q', 'openai:gpt-5')", "load('helpfulness', model='openai:gpt-5')"),
    ("self_refine(ScriptedModel(['x']))", "write self_refine(generator, judge)"),
    ("SelfRefineMiddleware()", "write SelfRefineMiddleware(judge)"),
    ("SelfRefineMiddleware(model=ScriptedModel(['x']), judge='json')", "the model is the agent's"),
    ("SelfRefineMiddleware('json').invoke('Hi')", "create_agent(model, tools, middleware="),
    ("refine.Webhook('https://a')", "write refine.Webhook(url, secret)"),
    ("refine.Webhook('https://a', None)", "the secret of a webhook is whsec_"),
    ("Policy(3)", "write Policy(max_attempts=3"),
    ("refiner(success_rating=0.8)", "a score from 0 to 1 is success_score=0.8"),
    ("refiner(stop_condition=len)", "a condition is a judge"),
    ("refiner(memory=1)", "takes a checkpointer"),
    ("refiner(interrupt_before=['judge'])", "on_exhausted='interrupt'"),
    ("refiner(tools=[])", "model.bind_tools(tools)"),
    ("refiner().invoke()", "give a text or a list of messages"),
    ("refiner().invoke(question='Hi')", "the question comes first, without a name"),
    ("refiner().invoke('Hi', thread_id='1')", "{'configurable': {'thread_id': '1'}}"),
    ("refiner().invoke('Hi', max_attempts=2)", "context={'max_attempts': 2}"),
    ("refiner().invoke('Hi', contexts=['a'])", "evidence={'contexts': ...}"),
    ("refiner().batch('Hi')", "batch takes a list of questions"),
    ("refiner().batch({'messages': 'Hi'})", "batch takes a list of questions"),
    ("refiner().invoke(b'Hi')", "cannot read b'Hi' as a question; give a text or a list of messages"),
    ("refiner()('Hi')", "invoke(question) returns the answer"),
    ("refiner(max_attempts=1).refine('Hi').final_answer", "did you mean 'answer'?"),
    ("refiner(max_attempts=1).refine('Hi').xyzzy", "it has answer, attempts, best"),
    ("refiner(max_attempts=1).refine('Hi').attempts[0].draft", "its text attempt.text"),
    ("refiner(max_attempts=1).refine('Hi').usage.prompt_tokens", "it is input_tokens, output_tokens or tokens"),
    ("refiner().batch_refine(['Hi'])", "several are batch(questions) or abatch(questions)"),
    ("refiner().add_judge('json')", "SelfRefine(generator, judge=[first, second])"),
    ("refiner(rule='all')", "judges.Panel([...], rule='min')"),
    ("Verdict.good()", "Verdict.checked(True) make one"),
    ("Sample(answer='a').output", "it is response"),
    ("evaluate([{'answer': 'a'}], 'json').failures", "for row in evaluation.rows"),
    ("load('Is it polite?')", "criteria='Is it polite?'"),
    ("load(['json', 'code'])", "several judges are a panel"),
    ("Verdict(rating=5)", "rating of a verdict: input should be 1, 2, 3 or 4, not 5; Verdict.rated(3"),
    ("Verdict(4)", "takes no value without a name; Verdict.rated(3"),
    ("Sample(question='q', answr='a')", "did you mean 'answer' by 'answr'?"),
    ("Verdict()", "Verdict.checked(True) make one"),
    ("Verdict.rated(1, reason='Rude.')", "a verdict has no 'reason'; it is rationale"),
    ("Verdict.rated(1, feedback=['SECRET'])", "feedback of a verdict: input should be a valid string, not a list"),
    ("Verdict.scored('high')", "a score lies from 0 to 1, not a str"),
    ("Verdict.checked('yes')", "a check is True or False"),
    ("evaluate(None, 'json')", "samples are rows such as [{'question'"),
    ("evaluate([{'answer': 'a'}])", "missing 1 required positional argument: 'judges'; write evaluate("),
    ("evaluate([{'answer': 'a'}], 'json', verbose=True)", "print(evaluation) sums it up"),
    ("as_judge('Is it polite?', model='openai:gpt-5')", "load('rubric', criteria=..., levels=...)"),
    ("load('json') & load('code')", "Panel([first, second], rule='min')"),
    ("load('json') | load('code')", "Panel([first, second], rule='min')"),
    ("Panel(['json', 'code'], mode='all')", "here it is rule=..."),
    ("ScriptedModel(responses=['a'])", "here it is script=..."),
    ("ScriptedModel(['a']).calls", "prompts has the messages of each call"),
    ("ScriptedJudge(ratings=[1])", "ScriptedJudge([1, 4])"),
    ("graph().draw_mermaid()", "graph.get_graph().draw_mermaid()"),
    ("evaluate([{'answer': 'a'}], 'json', seed=1)", "has no argument 'seed'; known are batch, judges"),
    ("compare('runs/a', 'runs/b')", "compare_runs('runs/a', 'runs/b')"),
    ("refine.write_report(evaluate([{'answer': 'a'}], 'json'))", "evaluate(rows, judge, run='runs/1')"),
    ("refine.DatabaseRecord(path='r.db')", "here it is url=..."),
    ("refine.DatabaseRecord('sqlite:///r.db', keep_days='a week')", "keep_days is a finite number"),
    ("refiner(max_attempts=1).invoke('Hi').rating", "response_metadata['refine'] sums it up"),
    ("refiner(max_attempts=1).refine('Hi').answer.score", "refine(question) returns the record"),
    ("graph(max_attempts=1).invoke({'messages': 'Hi'})['messages'][-1].outcome", "the record, an Outcome"),
    ("refiner(max_attempts=1).refine('Hi').verdicts", "they are in outcome.attempts"),
    ("refiner().get_state({})", "the graph has it: refiner.graph"),
    ("refiner().invoke('Hi', session_id='1')", "{'configurable': {'thread_id': '1'}}"),
    ("refiner().invoke('Hi', max_concurrency=2)", "it belongs to the config"),
    ("list(refiner().stream('Hi', stream_mode='values'))", "self_refine(...) has LangGraph's modes"),
    ("refiner().with_structured_output(int)", "a schema is a pydantic class"),
    ("refiner().with_structured_output(CliRunner)", "Unable to generate pydantic-core schema"),
    ("SelfRefine.from_llm(ScriptedModel(['x']), 'json')", "it is made by its name: SelfRefine(generator, judge)"),
    ("SelfRefineMiddleware.from_llm('json')", "it is made by its name: SelfRefineMiddleware(judge)"),
    ("SelfRefineMiddleware('json')('Hi')", "a SelfRefineMiddleware is not called: the agent is asked"),
    ("SelfRefineMiddleware('json').last_outcome", "outcome(result) returns the record"),
    ("create_agent(ScriptedModel(['x']), middleware=[SelfRefineMiddleware])", "[SelfRefineMiddleware(judge)]"),
    ("create_agent(ScriptedModel(['x']), middleware=[refiner()])", "middleware=[SelfRefineMiddleware(judge)]"),
    ("create_agent(ScriptedModel(['x']), middleware=[load('json')])", "middleware=[SelfRefineMiddleware(judge)]"),
    ("graph()('Hi')", "a LoopGraph is not called: it is invoke({'messages'"),
    ("Policy.from_dict({'max_attempts': 3})", "Policy(**settings)"),
    ("Policy(max_attempts=3).replace(max_attempts=5)", "another is Policy(**{**policy.model_dump(exclude_unset"),
    ("load('json')('q', 'a')", "fields by name: judge(question=..., answer=...)"),
    ("load('json')('a')", "keywords such as question=... and answer=..."),
    ("Sample('q', 'a')", "it is Sample(question=..., answer=...)"),
    ("Sample(answer='a').to_dict()", "it is model_dump(exclude_none=True)"),
    ("Verdict.passed(True)", "Verdict.checked(True) make one"),
    ("evaluate([{'answer': 'a'}], 'json')[0]", "rows are evaluation.rows"),
    ("refine.record.open_record('attempts.jsonl').add('a')", "a record takes an Outcome"),
    ("refine.record.open_record('attempts.jsonl').add({'question': 'SECRET'})", "a record takes an Outcome"),
    ("load_settings(None, {'endpoint': 'http://a'})", "endpoint is no setting; here it is upstream"),
    ("load_settings(None, {'timeout': 3})", "policy = { deadline_s = ... }"),
    ("load_settings(None, {'judge': {'name': 'json'}})", 'write judge = "length:at_most=80"'),
)


def test_a_guessed_call_says_in_one_line_what_to_write() -> None:
    """Calls as one who knows other libraries writes them first; what is judged is in none of the lines."""
    names = {**globals(), "SelfRefineMiddleware": refine.SelfRefineMiddleware, "compare": offline.compare}
    for one in (load_settings, create_agent, Sample, as_judge, load, Limiter, Verdict):
        names[one.__name__] = one
    unclear = []
    for source, remedy in GUESSED_CALLS:
        with pytest.raises((ValueError, TypeError, AttributeError, KeyError, ImportError)) as raised:
            eval(source, names)  # noqa: S307 - as a user writes it
        message = str(raised.value)
        if remedy not in message or "\n" in message or "SECRET" in message or len(message) > LONGEST:
            unclear.append((source, message))
    assert unclear == []
    assert not hasattr(graph(), "compile")


OPTIONS = (
    ("evaluate rows.jsonl --metric json", "No such option: --metric; here it is --judge"),
    ("evaluate rows.jsonl --judge json --output out", "No such option: --output; here it is --out"),
    ("evaluate --dataset rows.jsonl --judge json", "given without an option: refine evaluate ROWS"),
    ("evaluate rows.jsonl --judge json --workers 2", "here it is --max-concurrency"),
    ("judges --search polite", "here it is --find"),
    ("evaluate rows.jsonl --judge length at_most=3", "follow its name and a colon, --judge NAME:at_most=3"),
    ("evaluate rows.jsonl --judge length --at_most=3", "follow its name and a colon, --judge NAME:at_most=..."),
    ("serve --url http://127.0.0.1:9", "here it is --upstream"),
    ("serve --threshold 4", "here it is --success-rating"),
    ("serve --api-key SECRET", "the key is read from the environment"),
    ("evaluate rows.jsonl --judge json --force", "a run is never overwritten"),
    ("evaluate rows.jsonl -o out", "here it is --out"),
    ("config", "No such command 'config'; settings are options, or a file of the guard"),
    ("demo", "No such command 'demo'; the demo is `python -m demos.weather`"),
    ("report --xyzzy", "No such option: --xyzzy (see refine report --help)"),
)


@for_every("command, line", OPTIONS)
def test_an_option_of_other_programs_is_answered_with_ours(command: str, line: str) -> None:
    """In one line, with the exit code of wrong usage."""
    result = CliRunner().invoke(app, command.split())
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert line in result.stderr


def test_a_batch_takes_what_gives_questions_one_by_one() -> None:
    """A generator, or a column of pandas, as well as a list."""
    listed: list[Any] = [(text for text in ("a", "b")), pd.Series(["a", "b"])]
    for questions in listed:
        guarded = SelfRefine(ScriptedModel(["draft"], cycle=True), ScriptedJudge([4], cycle=True))
        assert [answer.text for answer in guarded.batch(questions)] == ["draft", "draft"]


def test_an_evaluation_of_nothing_says_so() -> None:
    """Where it is printed, in one line."""
    assert str(evaluate([], Length(at_most=9))).startswith(
        "Evaluation(0 rows: nothing was judged; samples was empty"
    )


def test_an_error_names_the_address_and_the_model() -> None:
    """Of the generator and of a judge, where nothing answers there."""
    down = OpenAICompatible("http://127.0.0.1:9/v1", model="small", retries=0)
    asked = SelfRefine(down, Length(at_most=9), max_retries=0)
    with pytest.raises(GeneratorFailed, match=r"on attempt 1 \(small at http://127.0.0.1:9\)"):
        asked.invoke("what?")
    assert Helpfulness(down)(question="what?", answer="An answer.").detail.endswith(
        "from small at http://127.0.0.1:9"
    )


def test_a_function_that_looks_for_a_word_in_the_sample_is_told_how_to_get_the_answer() -> None:
    """Of a whole sample it would find no word, and a function that forbids one would accept every answer."""
    refiner = SelfRefine(ScriptedModel(["Buy it."]), lambda text: "Buy" not in text)
    with pytest.raises(ConfigurationError, match="name the parameter `answer`"):
        refiner.invoke("What is new?")
    outcome = SelfRefine(ScriptedModel(["Buy it."] * 3), lambda answer: "Buy" not in answer).refine("?")
    assert outcome.passed is False
