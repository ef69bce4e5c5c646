"""What to say where somebody guesses at a name that a package or an object does not have."""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from opcode import opmap
from typing import TYPE_CHECKING, Any, ClassVar, Never

_ALIKE = 0.8
"""How alike a misspelt name is to a public one, from 0 to 1."""

_LEAST_PART = 4
"""Characters that a public name has at least that is looked for inside of a guess."""

_MOST_NAMES = 12
"""How many names an error lists."""


def _table(*rows: tuple[Sequence[str], str]) -> Mapping[str, str]:
    return {name: hint for names, hint in rows for name in names}


_OFFLINE = "it is in judges.offline: from judges.offline import {}"
_IN_REFINE = "it is in refine: from refine import {}"
_IN_GRAPHS = "it is in graphs: from graphs import {}"

_ELSEWHERE: Mapping[str, str] = {
    **{name: _OFFLINE.format(name) for name in ("evaluate", "aevaluate", "compare", "acompare", "rank")},
    **{name: _IN_REFINE.format(name) for name in ("SelfRefine", "Policy", "Outcome", "Attempt", "losses")},
    **{name: _IN_GRAPHS.format(name) for name in ("self_refine", "Bounds")},
    "feedback_only": "it is restated now: from graphs import restated",
    **dict.fromkeys(
        ("SelfRefineMiddleware", "JudgeMiddleware"),
        "it is in refine.middleware: from refine.middleware import SelfRefineMiddleware",
    ),
    **dict.fromkeys(("evaluate_dataset", "evaluate_rows", "aevaluate_dataset"), _OFFLINE.format("evaluate")),
    "RAGEvaluator": "it is in judges.rag: from judges.rag import RAGEvaluator",
    **{
        name: f"it is in judges.testing: from judges.testing import {name}"
        for name in ("ScriptedModel", "ScriptedJudge")
    },
}
"""The public names that are looked for in the wrong package, and where they are."""

_OF_JUDGES = _table(
    (
        ("get", "get_judge", "make", "create", "build", "judge", "load_judge", "from_name", "Evaluator", "Metric"),
        "judges.load('helpfulness', model=...) makes a judge by its name",
    ),
    (
        (
            *("list", "list_judges", "names", "available", "all", "registry", "find", "search", "describe"),
            *("metrics", "evaluators"),
        ),
        "judges.catalogue() lists all judges, as `refine judges` does",
    ),
    (
        ("LLMJudge", "JudgeLLM", "LLMAsJudge", "create_llm_as_judge", "make_judge", "Criteria"),
        "a criterion of your own is judges.load('rubric', criteria=..., levels={1: ..., 2: ...})",
    ),
    (
        ("LLMTestCase", "SingleTurnSample", "TestCase"),
        "a row is a judges.Sample, or a mapping: judge(question=..., answer=...)",
    ),
    (("score", "run", "measure", "assess"), "call a judge: judges.load('length', at_most=80)(answer=...)"),
    (("register", "register_judge"), "any function is a judge: judges.as_judge(function)"),
)

_MIDDLEWARE = ("Middleware", "RefineMiddleware", "AgentMiddleware", "SelfRefineAgent", "Agent")

_OF_REFINE = _table(
    (
        (
            *(
                "Refiner",
                "Refine",
                "RefineLoop",
                "SelfRefiner",
                "RefineChain",
                "SelfRefineChain",
                "SelfRefineLoop",
            ),
            *("Pipeline", "Guard", "refine", "loop", "invoke", "create_refiner", "make_refiner", "build", "wrap"),
            *("create_loop", "self_correct", "Reflexion", "SelfRefineGraph", "RefineGraph", "create_graph"),
            *("build_graph", "make_graph", "graph", "Graph"),
        ),
        "the loop is SelfRefine, a graph of it self_refine: SelfRefine(generator, judge).invoke(question)",
    ),
    (
        _MIDDLEWARE,
        "in an agent it is SelfRefineMiddleware: create_agent(..., middleware=[SelfRefineMiddleware(judge)])",
    ),
    (
        ("Result", "Answer", "Response", "RefineResult", "Report"),
        "the result is an Outcome: outcome = refiner.refine(question)",
    ),
    (
        ("Config", "Settings", "RefineConfig", "RefinePolicy", "LoopPolicy", "Options"),
        "settings are those of Policy, as keywords: SelfRefine(generator, judge, max_attempts=3)",
    ),
    (
        ("Record", "Recorder", "Store", "Storage", "Database", "Logger", "History"),
        "recording is a setting: SelfRefine(generator, judge, record='attempts.jsonl')",
    ),
    (
        ("certify", "Certificate", "align", "calibrate", "label", "monitor", "replay", "report", "export"),
        "it is a command: `refine --help` lists them",
    ),
    (
        ("Feedback", "Critique", "Rationale", "Score", "Rating"),
        "it is a part of a verdict: from judges import Verdict; Verdict.rated(2, feedback='Be brief.')",
    ),
    (
        ("State", "RefineState", "SelfRefineState", "LoopState"),
        "the state of the loop is its own; what came about is an Outcome: SelfRefine(...).refine(question)",
    ),
    (
        ("App", "Server", "Proxy", "GuardServer", "serve", "create_app", "app"),
        "the guard is the command `refine serve`; in Python it is refine.server",
    ),
)

_OF_GRAPHS = _table(
    (
        ("interrupt", "Interrupt", "human", "approve", "review"),
        "a human is asked by a setting: self_refine(generator, judge, on_exhausted='interrupt', checkpointer=...)",
    ),
    (("Command",), "it is LangGraph's: from langgraph.types import Command"),
    (("StateGraph", "START", "END", "MessagesState"), "it is LangGraph's: from langgraph.graph import ..."),
)

_ROWS = "rows are samples, or mappings: evaluate([{'question': ..., 'answer': ...}], judge)"
_ONE_MIDDLEWARE = (
    "the one middleware is SelfRefineMiddleware: create_agent(..., middleware=[SelfRefineMiddleware(judge)])"
)

_OF_PACKAGES: Mapping[str, Mapping[str, str]] = {
    "judges": _OF_JUDGES,
    "graphs": {**_OF_REFINE, **_OF_GRAPHS},
    "refine": {
        **_OF_REFINE,
        "judge": "a judge is made by its name: from judges import load",
        **{name: f"it is a package of its own: import {name}" for name in ("judges", "graphs")},
    },
    "refine.middleware": dict.fromkeys(("JudgeMiddleware", *_MIDDLEWARE), _ONE_MIDDLEWARE),
    "judges.offline": _table(
        (("Dataset", "EvaluationDataset", "DataFrame", "Samples"), _ROWS),
        (
            ("load_rows", "read", "read_jsonl", "read_csv", "load_dataset"),
            "rows of a file are read_rows('rows.jsonl')",
        ),
        (("EvaluationResult", "Result", "Results", "Report"), "the result of evaluate is an Evaluation"),
        (("evaluate_async", "async_evaluate", "run", "score", "judge"), "it is evaluate, or await aevaluate"),
    ),
    "judges.testing": _table(
        (
            ("FakeModel", "FakeChatModel", "MockModel", "FakeListChatModel", "FakeLLM", "MockLLM"),
            "it is ScriptedModel",
        ),
        (("FakeJudge", "MockJudge", "StubJudge"), "it is ScriptedJudge"),
        (("FakeEmbeddings", "MockEmbeddings"), "it is ScriptedEmbeddings"),
    ),
}
"""What to use instead of a name, by the package that is asked for it."""

_HOOKS = ("wrap_tool_call", "awrap_tool_call", "wrap_model_call", "awrap_model_call", "before_agent", "tools")
"""What LangChain looks for in each middleware of an agent."""

_IN_AN_AGENT = "an agent takes a middleware: create_agent(model, tools, middleware=[SelfRefineMiddleware(judge)])"
_MAKERS = (
    *("from_llm", "from_model", "from_chain", "from_agent", "from_config", "from_dict", "from_settings"),
    *("from_template", "from_messages", "from_name", "default", "create", "build", "load"),
)
"""Methods that make an object of other libraries' classes."""

_CALL = "call the judge: judge(question=..., answer=...)"
_AWAIT = "it is acall: await judge.acall(question=..., answer=...)"
OF_A_JUDGE = _table(
    (
        (
            *(
                "evaluate",
                "score",
                "measure",
                "judge",
                "run",
                "invoke",
                "predict",
                "grade",
                "assess",
                "check",
                "rate",
            ),
            *("single_turn_score", "multi_turn_score", "evaluate_response", "is_successful", "get_verdict"),
        ),
        _CALL,
    ),
    (
        (
            *("aevaluate", "ascore", "a_measure", "ajudge", "arun", "ainvoke", "apredict", "agrade", "arate"),
            *("single_turn_ascore", "multi_turn_ascore", "evaluate_async"),
        ),
        _AWAIT,
    ),
    (
        ("batch", "abatch", "map", "evaluate_dataset", "evaluate_batch", "batch_score"),
        "several rows are evaluate(rows, judge) of judges.offline",
    ),
    (
        ("settings", "config", "params", "needs", "asks", "calls", "required_columns", "description"),
        "explain() says it",
    ),
    (("model", "llm"), "its models are judge.models"),
    (_HOOKS, _IN_AN_AGENT),
    (_MAKERS, "a judge is made by its name: judges.load('helpfulness', model=...)"),
)
_MADE_BY = "Verdict.rated(3, feedback=...), Verdict.scored(0.8) and Verdict.checked(True) make one"
OF_A_VERDICT = _table(
    ((*_MAKERS, "passed", "failed", "score", "rating", "unscored", "error_"), _MADE_BY),
    (("reason", "reasoning", "explanation", "comment", "justification", "reasons", "critique"), "it is rationale"),
    (("success", "is_successful", "successful", "accepted", "pass_", "ok"), "it is passed"),
    (("result", "label", "verdict", "grade"), "it is value; rating is from 1 to 4, score from 0 to 1"),
    (("error", "failure"), "unscored is the reason code, detail says more"),
    (("cost", "tokens", "token_usage"), "it is in usage: usage.cost, usage.tokens"),
    (("suggestion", "suggestions", "improvement"), "it is feedback"),
    (("claims", "statements", "details"), "the parts are items"),
    (("to_dict", "dict", "as_dict", "json", "to_json"), "it is model_dump(), or model_dump_json()"),
)
OF_AN_OUTCOME = _table(
    (
        ("content", "response", "output", "message", "result"),
        "the answer is outcome.answer, its text outcome.text",
    ),
    (
        ("rating", "score", "verdict", "feedback", "rationale"),
        "each attempt has its own: outcome.attempts[-1], or outcome.best",
    ),
    (
        ("drafts", "history", "steps", "iterations", "rounds", "verdicts", "ratings", "scores"),
        "they are in outcome.attempts",
    ),
    (("success", "accepted", "is_accepted"), "it is passed"),
    (("cost", "tokens", "calls", "token_usage"), "it is in usage: outcome.usage.cost, outcome.usage.tokens"),
    (("reason", "error", "status"), "stop_reason says why the loop stopped, detail says more"),
    (("duration", "latency", "elapsed", "time"), "it is latency_s, in seconds"),
    (("to_dict", "dict", "as_dict", "json", "to_json"), "it is model_dump(), or model_dump_json()"),
)
OF_AN_EVALUATION = _table(
    (
        ("mean", "average", "score", "rating", "passed", "pass_rate", "aggregate", "metrics", "accuracy"),
        "each judge has its own: evaluation['length'].mean",
    ),
    (
        ("results", "records", "verdicts", "samples", "test_results"),
        "they are rows: evaluation.rows[0].verdicts['length']",
    ),
    (("df", "dataframe", "to_df", "to_dataframe", "pandas"), "it is to_pandas()"),
    (
        ("to_dict", "to_json", "json", "save", "to_csv"),
        "its rows are written by evaluate(..., out='results.jsonl')",
    ),
    (("print", "show", "report"), "print(evaluation) shows the means; rows and summary hold the rest"),
    (("usage", "tokens"), "it is cost, or total_tokens(); evaluation['length'].usage is that of one judge"),
)
OF_A_REFINER = _table(
    (
        (
            "run",
            "generate",
            "predict",
            "chat",
            "ask",
            "answer",
            "call",
            "complete",
            "execute",
            "query",
        ),
        "invoke(question) returns the answer, refine(question) the whole record",
    ),
    (
        ("arun", "agenerate", "apredict", "achat", "aask", "aanswer", "acall", "acomplete"),
        "ainvoke(question) returns the answer, arefine(question) the whole record",
    ),
    (("evaluate", "judge_dataset"), _OFFLINE.format("evaluate")),
    (("model", "llm"), "the model is generator"),
    (("judges",), "it is judge"),
    (
        ("outcome", "outcomes", "history", "attempts", "last_outcome", "get_outcome"),
        "nothing is kept on the object: refine(question) returns it",
    ),
    (
        ("success_rating", "max_attempts", "on_exhausted", "on_judge_error", "patience", "deadline_s"),
        "it is a setting of policy",
    ),
    (
        ("get_state", "aget_state", "update_state", "aupdate_state", "get_state_history", "aget_state_history"),
        "the graph has it: refiner.graph",
    ),
    (_MAKERS, "it is made by its name: SelfRefine(generator, judge)"),
    (_HOOKS, _IN_AN_AGENT),
)
OF_AN_ANSWER = _table(
    (
        ("rating", "score", "passed", "stop_reason", "attempts", "outcome_id", "feedback", "rationale", "verdict"),
        "the answer is a message, and response_metadata['refine'] sums it up; refine(question) returns the record",
    ),
    (
        ("outcome", "best", "refine", "usage", "history", "drafts", "verdicts", "answer"),
        "the answer is a message; refine(question) returns the record, an Outcome",
    ),
)
OF_A_POLICY = _table(
    (_MAKERS, "it is made by its name: Policy(max_attempts=3), or Policy(**settings)"),
    (
        ("with_", "replace", "update", "merge", "evolve", "override_with"),
        "another is Policy(**{**policy.model_dump(exclude_unset=True), 'max_attempts': 5})",
    ),
    (("to_dict", "dict", "as_dict", "json", "to_json"), "it is model_dump(exclude_unset=True)"),
)
OF_A_SAMPLE = _table(
    (_MAKERS, "a row becomes one by Sample.read(row), or Sample(question=..., answer=...)"),
    (("to_dict", "dict_", "as_dict", "to_json"), "it is model_dump(exclude_none=True), or model_dump_json()"),
)

OF_A_MIDDLEWARE = _table(
    (_MAKERS, "it is made by its name: SelfRefineMiddleware(judge)"),
    (
        ("outcomes", "last_outcome", "get_outcome", "attempts", "history"),
        "outcome(result) returns the record of what the agent returned; on_outcome=... gets each as it ends",
    ),
    (
        ("invoke", "ainvoke", "run", "arun", "stream", "astream", "refine", "arefine", "agent"),
        "the agent is asked: create_agent(model, tools, middleware=[SelfRefineMiddleware(judge)]).invoke(...)",
    ),
)
OF_A_GRAPH = _table(
    (("compile",), "it is compiled: graph.invoke({'messages': [('user', question)]})"),
    (
        ("refine", "arefine", "run", "arun", "chat", "ask", "generate"),
        "it is invoke({'messages': [('user', question)]}); the record is that of SelfRefine(...).refine(question)",
    ),
    (
        ("add_node", "add_edge", "add_conditional_edges"),
        "it is finished: put it as a node into a StateGraph of your own, builder.add_node('refine', graph)",
    ),
)


def of_package(
    package: str, name: str, others: Mapping[str, Collection[str]] | None = None, own: Collection[str] = ()
) -> str:
    """Return what to use instead of a name that one of the packages does not have; empty where nothing is known.

    Args:
        package: The package that was asked.
        name: The name.
        others: The public names of other packages, by package.
        own: The public names of the package, of which one may be alike.
    """
    for other, names in (others or {}).items():
        if name in names:
            return f"it is in {other}: from {other} import {name}"
    own_hint = _OF_PACKAGES.get(package, {}).get(name) or _ELSEWHERE.get(name) or nearest(name, own)
    return own_hint or next((hints[name] for hints in _OF_PACKAGES.values() if name in hints), "")


def nearest(name: str, own: Collection[str]) -> str:
    """Return the question whether a name is meant that is alike, or that is a part of it; empty where none is."""
    by_spelling = {other.lower(): other for other in own}
    near = get_close_matches(name.lower(), by_spelling, n=1, cutoff=_ALIKE)
    parts = [other for other in by_spelling if len(other) >= _LEAST_PART and other in name.lower()]
    meant = near[0] if near else max(parts, key=len, default="")
    return f"did you mean {by_spelling[meant]!r}?" if meant else ""


def no_such_name(package: str, name: str, hint: str) -> Exception:
    """Return the error for a name that a package does not have, for its `__getattr__` to raise.

    `from package import name` drops what an AttributeError says, but not what an ImportError says.

    Args:
        package: The package.
        name: The name.
        hint: What to use instead; empty where nothing is known.
    """
    asking = sys._getframe(2)  # noqa: SLF001 - who asks is to be told
    if not name.startswith("_") and asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]:
        hint = hint or f"it has {listed(sys.modules[package].__all__)}"
        return ImportError(f"cannot import name {name!r} from {package!r}; {hint}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}{hint and '; '}{hint}")


def listed(names: Collection[str]) -> str:
    """Return names for an error, the first ones where they are many."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMES} more" if len(ordered) > _MOST_NAMES else ""
    return f"{', '.join(ordered[:_MOST_NAMES])}{more}"


_DOORS = (
    *("refine", "refine.middleware", "refine.record", "refine.server", "judges", "judges.authoring"),
    *("judges.catalogue", "judges.offline", "judges.testing", "graphs"),
)
"""The packages that names are imported from."""

_BY_NAME = "a judge is made by its name: from judges import load; load('faithfulness', model=...)"
_OF_MODULES = _table(
    (
        ("agent", "agents", "middlewares", "langchain", "integrations"),
        "from refine import SelfRefineMiddleware",
    ),
    (
        ("evaluate", "evaluation", "evaluations", "eval", "evals", "dataset", "datasets", "compare"),
        "from judges.offline import evaluate, compare, read_rows",
    ),
    (
        ("metric", "metrics", "evaluators", "scorers", "criteria", "prebuilt", "builtin", "llm", "llms", "rag"),
        _BY_NAME,
    ),
    (("ragas", "deepeval", "mlflow", "databricks", "nvidia", "openevals", "library", "collection"), _BY_NAME),
    (("models", "providers", "openai", "clients", "client"), "from judges import OpenAICompatible"),
    (("policy", "policies", "config", "settings", "options"), "from refine import Policy"),
    (("guard", "proxy", "gateway", "api", "app"), "from refine.server import RunningGuard; or `refine serve`"),
    (("certificate", "certificates", "certify", "calibration"), "certificates are made by `refine certify`"),
    (("mock", "mocks", "fakes", "fake", "stubs"), "from judges.testing import ScriptedModel, ScriptedJudge"),
    (("verdict", "verdicts", "types", "schema", "schemas", "results"), "from judges import Verdict, Sample"),
    (("errors", "exceptions"), "from refine import NotAccepted, QuestionRefused; from judges import JudgesError"),
    (("custom", "decorators", "base"), "from judges import as_judge, Judge"),
    (("records", "storage", "store", "database", "history"), "from refine.record import DatabaseRecord"),
)
"""What to import instead of modules that there are not, by the last part of their names."""


class HintsAtModules:
    """The last one asked for a module; of a module of these packages that there is not, it says what to import."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing.

        Raises:
            ModuleNotFoundError: If one of the packages is asked for a public module that it does not have.
        """
        del path, target
        package, _, last = name.rpartition(".")
        if name.partition(".")[0] not in ("refine", "judges", "graphs") or not package or last.startswith("_"):
            return
        door = next((door for door in _DOORS if door.rpartition(".")[2] == last), "")
        hint = f"it is {door}: from {door} import ..." if door else _OF_MODULES.get(last, "")
        hint = hint or f"from refine import SelfRefine is the loop; the packages are {listed(_DOORS)}"
        raise ModuleNotFoundError(f"No module named {name!r}; {hint}", name=name)


if HintsAtModules not in sys.meta_path:
    sys.meta_path.append(HintsAtModules)


class _Unmade:
    """Says that a class stands where one of its objects is wanted.

    LangChain asks `middleware.__class__` for its hooks, which is this where the middleware is a class.
    """

    def __get__(self, owner: object, kind: object) -> Never:
        del owner, kind
        raise AttributeError(f"this is a class, of which an object is wanted; {_IN_AN_AGENT}")


class HintsAtClassGuesses(ABCMeta):
    """A class whose missing attributes say what to use instead, as those of its objects do."""

    _guesses: Mapping[str, str] = {}

    if not TYPE_CHECKING:  # for type checkers an attribute that is missing stays an error
        wrap_tool_call = _Unmade()

        def __getattr__(cls, name: str) -> Any:
            hint = cls._guesses.get(name)
            if hint is None and hasattr(super(), "__getattr__"):
                return super().__getattr__(name)
            known = "" if hint is None else f"; {hint}"
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{known}")


if TYPE_CHECKING:  # as is said at the class of classes
    _Hinted = object
else:
    _Hinted = HintsAtClassGuesses("_Hinted", (), {})


class HintsAtGuesses(_Hinted):
    """An object whose missing attributes say what to use instead."""

    _guesses: ClassVar[Mapping[str, str]] = {}
    """What to use instead, by the name that one may guess."""

    if not TYPE_CHECKING:  # for type checkers an attribute that is missing stays an error

        def __getattr__(self, name: str) -> Any:
            hint = self._guesses.get(name)
            if hint is not None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {hint}")
            inherited = getattr(super(), "__getattr__", None)
            if inherited is not None:
                return inherited(name)
            return object.__getattribute__(self, name)  # raises again, so that a property's own error is told


class HintsAtCalls(HintsAtGuesses):
    """An object that is asked by a method, and says by which one where it is called like a function."""

    if not TYPE_CHECKING:  # type checkers know that it is not callable

        def __call__(self, *_: object, **__: object) -> Never:
            """Say how it is asked.

            Raises:
                TypeError: Always.
            """
            raise TypeError(f"a {type(self).__name__} is not called: {self._guesses['run']}")


class HintsAtKeys(HintsAtGuesses):
    """A record whose fields are attributes, and which names them where a key or another name is asked for."""

    if not TYPE_CHECKING:  # for type checkers a record has no keys, and no other attributes

        def __getattr__(self, name: str) -> Any:
            fields = type(self).model_fields
            if name.startswith("_") or name in fields or name in self._guesses or hasattr(type(self), name):
                return super().__getattr__(name)
            properties = [own for own, value in vars(type(self)).items() if isinstance(value, property)]
            hint = nearest(name, [*fields, *properties]) or f"it has {listed(fields)}"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {hint}")

        def __getitem__(self, key: object) -> Any:
            guess = "" if not isinstance(key, str) else self._guesses.get(key, "")
            hint = guess or "its fields are attributes"
            if isinstance(key, str) and (key in type(self).model_fields or hasattr(type(self), key)):
                hint = f"it is the attribute .{key}"
            raise TypeError(f"{type(self).__name__!r} object has no keys such as {key!r:.80}; {hint}")
