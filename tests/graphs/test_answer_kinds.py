"""Kinds of answer: refusals, filtered, cut off, without text; one rule for every provider and every door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import SecretStr

from graphs import GeneratorFailed, Outcome, Policy, self_refine
from graphs.answers import kind_of_answer
from judges import OpenAICompatible
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine, SelfRefineMiddleware
from tests.model_server import Reply, serving

PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SOUND = {"id": "audio_1", "data": "AAAA", "transcript": "hello", "expires_at": 1}
REFUSED = AIMessage("", additional_kwargs={"refusal": "I cannot help with that."})
CUT = AIMessage("The answer is", response_metadata={"finish_reason": "length"})


def ended(text: str = "some text", **metadata: object) -> AIMessage:
    """Make an answer with metadata of a provider."""
    return AIMessage(text, response_metadata=metadata)


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        (
            "text",
            [AIMessage("fine"), ended(finish_reason="stop"), ended(stop_reason="end_turn"), ended(status="x")],
        ),
        ("text", [AIMessage("fine", additional_kwargs={"refusal": None}), ended(finish_reason="STOP", done=True)]),
        ("text", [AIMessage([{"type": "text", "text": "see"}, PICTURE]), ended(finish_reason="strange_new_word")]),
        ("empty", [AIMessage(""), AIMessage([]), AIMessage(" \n"), ended("", finish_reason="stop")]),
        ("empty", [AIMessage([{"type": "reasoning", "reasoning": "hm"}]), AIMessage("", additional_kwargs={})]),
        ("tool_call", [AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}])]),
        ("refusal", [REFUSED, AIMessage("No.", additional_kwargs={"refusal": "No."})]),
        ("refusal", [AIMessage([{"type": "refusal", "refusal": "No."}]), ended(stop_reason="refusal")]),
        ("refusal", [AIMessage([{"type": "non_standard", "value": {"type": "refusal", "refusal": "No."}}])]),
        ("refusal", [ended("", stop_reason="refusal"), ended(finish_reason="model_refused")]),
        ("filtered", [ended(finish_reason="content_filter"), ended("", finish_reason="SAFETY")]),
        ("filtered", [ended(stopReason="guardrail_intervened"), ended(finish_reason="RECITATION")]),
        ("filtered", [ended(status="incomplete", incomplete_details={"reason": "content_filter"})]),
        ("filtered", [ended("", prompt_feedback={"block_reason": "SAFETY"}), ended(finish_reason="ERROR_TOXIC")]),
        (
            "cut",
            [CUT, ended(stop_reason="max_tokens"), ended(finish_reason="MAX_TOKENS"), ended(done_reason="length")],
        ),
        ("cut", [ended(status="incomplete", incomplete_details={"reason": "max_output_tokens"})]),
        ("cut", [ended(finish_details={"type": "max_tokens"}), ended("", finish_reason="length")]),
        ("cut", [ended(stop_reason="model_context_window_exceeded"), ended(stopReason="max_tokens")]),
        (
            "audio",
            [AIMessage("", additional_kwargs={"audio": SOUND}), AIMessage([{"type": "audio", "base64": "AA"}])],
        ),
        ("audio", [AIMessage([{"type": "media", "mime_type": "audio/wav", "data": "AA"}])]),
        (
            "image",
            [AIMessage([PICTURE]), AIMessage([{"type": "image", "base64": "AA", "mime_type": "image/png"}])],
        ),
        ("image", [AIMessage("", additional_kwargs={"tool_outputs": [{"type": "image_generation_call"}]})]),
        (
            "image",
            [AIMessage([{"type": "text", "text": " "}, PICTURE], response_metadata={"finish_reason": "length"})],
        ),
        ("video", [AIMessage([{"type": "video", "url": "https://x"}])]),
        ("file", [AIMessage([{"type": "file", "file_id": "f"}])]),
    ],
)
def test_every_provider_says_it_in_its_own_form(kind: str, answers: list[AIMessage]) -> None:
    """An answer's kind is read from fields, parts of the content and the word for why it ended."""
    assert [kind_of_answer(answer) for answer in answers] == [kind] * len(answers)


def through_every_door(
    script: list[AIMessage], ratings: list[int], **settings: Any
) -> list[tuple[Outcome, int, int]]:
    """Answer a question by each door; return the outcomes, how often was generated, and how often judged."""
    results = []
    for door in ("refine", "arefine", "agent", "streaming"):
        model, judge = ScriptedModel(script), ScriptedJudge(ratings)
        generator: Any = create_agent(model, []) if door == "agent" else model
        if door == "streaming":
            generator = streaming(model)
        refiner = SelfRefine(generator, judge, **settings)
        outcome = asyncio.run(refiner.arefine("what?")) if door == "arefine" else refiner.refine("what?")
        results.append((outcome, len(model.prompts), len(judge.samples)))
    return results


def streaming(model: ScriptedModel) -> Callable[[list[BaseMessage]], Iterator[AIMessageChunk]]:
    """Return a function that streams what a model answers."""

    def pieces(messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
        yield from in_pieces(model.invoke(messages))

    return pieces


def in_pieces(answer: AIMessage) -> Iterator[AIMessageChunk]:
    """Stream an answer as chunks; fields and the ending go with the last one."""
    fields = answer.model_dump(include={"additional_kwargs", "response_metadata", "usage_metadata"})
    words = [answer.content] if isinstance(answer.content, list) else str(answer.content).split(" ")
    for word in words:
        yield AIMessageChunk(content=word if isinstance(word, list) else f"{word} ")
    yield AIMessageChunk(content="", **fields)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (REFUSED, "refusal: the model declined to answer"),
        (AIMessage([{"type": "refusal", "refusal": "No."}]), "refusal: the model declined to answer"),
        (ended("Sorry,", stop_reason="refusal"), "refusal: the model declined to answer"),
        (
            ended("Half", finish_reason="content_filter"),
            "filtered: the provider stopped the answer (content_filter)",
        ),
        (AIMessage("", additional_kwargs={"audio": SOUND}), "audio: the answer has no text to judge"),
        (AIMessage([PICTURE]), "image: the answer has no text to judge"),
    ],
)
def test_what_no_judge_can_rate_is_handed_on(answer: AIMessage, detail: str) -> None:
    """One generation, no judge, the answer as it came, and the reason in outcome and summary."""
    for outcome, generated, judged in through_every_door([answer], []):
        assert (outcome.stop_reason, outcome.detail, outcome.passed) == ("skipped", detail, False)
        assert (generated, judged) == (1, 0)
        assert outcome.answer is not None
        assert str(outcome.answer.text).strip() == str(answer.text)
        assert outcome.answer.additional_kwargs == answer.additional_kwargs
        assert isinstance(answer.content, str) or outcome.answer.content == answer.content
        summary = outcome.answer.response_metadata["refine"]
        assert (summary["stop_reason"], summary["detail"]) == ("skipped", detail)
        assert summary["attempts"][0]["kind"] == detail.partition(":")[0]


def test_a_refusal_is_judged_where_the_policy_says_so() -> None:
    """The judge sees what the refusal says; one without any words is handed on all the same."""
    model, judge = (
        ScriptedModel([REFUSED, AIMessage("It is 15 C.")]),
        ScriptedJudge([(1, "No reason to refuse."), 4]),
    )
    outcome = SelfRefine(model, judge, judge_refusals=True, augment="last_draft").refine("How warm is it?")
    assert (outcome.stop_reason, [sample.response for sample in judge.samples]) == (
        "accepted",
        ["I cannot help with that.", "It is 15 C."],
    )
    assert [str(message.text) for message in model.prompts[1]][1] == "I cannot help with that."
    wordless = SelfRefine(
        ScriptedModel([ended("", stop_reason="refusal")]), ScriptedJudge([]), judge_refusals=True
    )
    assert wordless.refine("what?").detail.startswith("refusal")


def test_a_cut_answer_is_asked_for_again_with_feedback_of_its_own() -> None:
    """No judge is asked about half an answer while there is another attempt."""
    for outcome, generated, judged in through_every_door([CUT, AIMessage("Short and whole.")], [4]):
        assert (outcome.stop_reason, outcome.passed, generated, judged) == ("accepted", True, 2, 1)
        first, second = outcome.attempts
        assert (first.kind, first.rating, second.kind, outcome.detail) == ("cut", 1, "text", "")
        assert first.feedback == "Keep the answer short."
    strict = SelfRefine(ScriptedModel([CUT, AIMessage("whole")]), ScriptedJudge([1]), success_rating=1)
    assert strict.refine("what?").released == 2


def test_the_last_attempt_is_judged_even_if_it_was_cut() -> None:
    """There is nothing better to wait for; it has not passed, and the outcome says that it was cut off."""
    for rating in (4, 2):
        for outcome, generated, judged in through_every_door([CUT, CUT], [rating], max_attempts=2):
            assert (outcome.stop_reason, outcome.passed, generated, judged) == ("max_attempts", False, 2, 1)
            assert outcome.detail == "the answer was cut off at its length limit"
    empty = SelfRefine(ScriptedModel([ended("", finish_reason="length")]), ScriptedJudge([]), max_attempts=1)
    assert (empty.refine("what?").attempts[0].feedback) == "Write a complete answer."
    shadow = SelfRefine(ScriptedModel([CUT]), judge := ScriptedJudge([2]), shadow=True)
    assert (shadow.refine("what?").released, len(judge.samples)) == (1, 1)


@pytest.mark.parametrize(
    ("question", "cut", "empty"),
    [
        ("How warm is it?", "Keep the answer short.", "Write a complete answer."),
        ("今天天气怎么样？", "回答要简短。", "请写出完整的回答。"),
        ("Какая сегодня погода?", "Ответь коротко.", "Напиши полный ответ."),
    ],
)
def test_feedback_speaks_the_language_of_the_question(question: str, cut: str, empty: str) -> None:
    """What the loop itself says of a draft is written in the question's language."""
    model = ScriptedModel([CUT, AIMessage(""), AIMessage("done")])
    SelfRefine(model, ScriptedJudge([4])).invoke(question)
    assert cut in str(model.prompts[1][-1].text)
    assert empty in str(model.prompts[2][-1].text)


def test_parts_beside_text_survive_the_loop() -> None:
    """Pictures of the question and of a draft are in every prompt, and the answer keeps its own."""
    drafts = [AIMessage([{"type": "text", "text": text, "id": "msg_1"}, PICTURE]) for text in ("a cat", "a dog")]
    question = HumanMessage([{"type": "text", "text": "What is this?"}, PICTURE])
    model, judge = ScriptedModel(drafts), ScriptedJudge([(1, "It barks."), 4])
    outcome = SelfRefine(model, judge, augment="last_draft").refine([question])
    assert [prompt[0].content for prompt in model.prompts] == [question.content] * 2
    assert model.prompts[1][1].content == [{"type": "text", "text": "a cat"}, PICTURE]
    assert outcome.answer is not None
    assert outcome.answer.content == drafts[1].content
    assert [sample.response for sample in judge.samples] == ["a cat", "a dog"]
    model = ScriptedModel([AIMessage(text, additional_kwargs={"audio": SOUND}) for text in ("hello", "good day")])
    answer = SelfRefine(model, ScriptedJudge([1, 4]), augment="last_draft").invoke("Say hello.")
    assert (model.prompts[1][1].additional_kwargs["audio"], answer.additional_kwargs) == (SOUND, {"audio": SOUND})


def test_a_checkpointed_graph_tells_the_kind_too() -> None:
    """The graph's summary, its events and what it restores from a checkpoint agree."""
    model = ScriptedModel([CUT, REFUSED])
    graph = self_refine(model, ScriptedJudge([]), policy=Policy(), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "kinds"}}
    events = [
        event
        for event in graph.stream({"messages": [("user", "what?")]}, config, stream_mode="custom")
        if event["event"] in ("attempt", "finish")
    ]
    assert [event.get("kind", event.get("detail")) for event in events] == [
        "cut",
        "refusal",
        "refusal: the model declined to answer",
    ]
    summary = graph.get_state(config).values["refine"]
    assert (summary["stop_reason"], [attempt["kind"] for attempt in summary["attempts"]]) == (
        "skipped",
        ["cut", "refusal"],
    )


def test_why_a_turn_was_not_judged_is_reported() -> None:
    """Sampling, a function of the policy and tool calls are distinguished."""
    cases: dict[str, dict[str, Any]] = {"sample_rate": {"sample_rate": 0.0}, "skip": {"skip": lambda answer: True}}
    for reason, settings in cases.items():
        outcome = SelfRefine(ScriptedModel(["hi"]), ScriptedJudge([]), **settings).refine("what?")
        assert (outcome.stop_reason, outcome.detail.partition(":")[0]) == ("skipped", reason)


def test_an_answer_that_was_cut_off_says_so_beside_why_the_loop_ended() -> None:
    """The detail has both, where a limit ended the loop, a judge failed, or a human released the answer."""
    note = "; the answer was cut off at its length limit"
    spent = SelfRefine(ScriptedModel([CUT]), ScriptedJudge([]), max_calls=1).refine("what?")
    assert spent.detail == f"1 of 1 model calls made{note}"
    failing = SelfRefine(ScriptedModel([CUT]), ScriptedJudge([ValueError()]), max_attempts=1).refine("what?")
    assert failing.stop_reason == "judge_failed"
    assert failing.detail.endswith(note)
    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    reviewed = self_refine(ScriptedModel([CUT]), ScriptedJudge([2]), policy=policy, checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    reviewed.invoke({"messages": [("user", "what?")]}, thread)
    state = reviewed.invoke(Command(resume="accept"), thread)
    assert state["refine"]["detail"] == f"released by a reviewer{note}"


@pytest.mark.parametrize("first", [AIMessage(""), CUT])
def test_on_a_tie_a_whole_answer_is_released(first: AIMessage) -> None:
    """Rated alike, a text goes before half a text, and this before nothing: of attempts and of candidates."""
    for script in ([first, "whole"], ["whole", first]):
        refiner = SelfRefine(ScriptedModel(script), ScriptedJudge([1], cycle=True), max_attempts=2)
        assert str(refiner.invoke("what?").text) == "whole"
        models = [{"model": ScriptedModel([line])} for line in script]
        several = SelfRefine(
            ScriptedModel([]), ScriptedJudge([1, 1]), candidates=2, max_attempts=1, overrides={1: models}
        )
        assert str(several.invoke("what?").text) == "whole"


def test_functions_that_yield_are_added_up() -> None:
    """A generator function, sync or async, is a generator of one answer."""

    def pieces(messages: list[Any]) -> Iterator[AIMessageChunk]:
        del messages
        yield from in_pieces(CUT)

    async def apieces(messages: list[Any]) -> Any:
        for piece in pieces(messages):
            yield piece

    outcome = SelfRefine(pieces, ScriptedJudge([2]), max_attempts=1).refine("what?")
    aoutcome = asyncio.run(SelfRefine(apieces, ScriptedJudge([2]), max_attempts=1).arefine("what?"))
    assert [one.attempts[0].kind for one in (outcome, aoutcome)] == ["cut", "cut"]


@pytest.mark.parametrize(
    ("reply", "kind", "requests"),
    [
        (Reply(refusal="I cannot help."), "refusal", 1),
        (Reply("Half of", finish_reason="content_filter"), "filtered", 1),
        (Reply("Half of", finish_reason="length"), "cut", 2),
        (Reply(calls=(("lookup", "subject: it"),)), "invalid_tool_call", 2),
    ],
)
def test_real_clients_are_read_alike(reply: Reply, kind: str, requests: int) -> None:
    """LangChain's client, whole and streamed, alone and inside an agent, and the direct client."""
    with serving(lambda _: reply) as server:
        whole = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"))
        streamed = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), streaming=True)
        direct = OpenAICompatible(server.url, model="m", api_key="k")
        direct_streamed = OpenAICompatible(server.url, model="m", api_key="k", stream=True)
        bound = streamed.bind(temperature=0)
        for generator in (whole, streamed, bound, create_agent(whole, []), direct, direct_streamed):
            before = len(server.requests)
            outcome = SelfRefine(generator, ScriptedJudge([2]), max_attempts=2).refine("what?")
            assert ([attempt.kind for attempt in outcome.attempts]) == [kind] * requests
            assert len(server.requests) - before == requests
            assert outcome.attempts[0].text == (reply.refusal or reply.text or "")


@pytest.mark.parametrize("end", ["error", "abort", "network_error", "insufficient_system_resource"])
def test_half_an_answer_whose_provider_failed_is_a_failed_call(end: str) -> None:
    """The half is neither judged nor released, also inside an agent, and beside the loop's middleware."""
    with serving(lambda _: Reply("Half of", finish_reason=end)) as server:
        whole = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"))
        streamed = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), streaming=True)
        for generator in (whole, streamed, create_agent(whole, []), lambda _: ended(finish_reason=end)):
            judge = ScriptedJudge([4])
            outcome = SelfRefine(generator, judge).refine("what?")
            assert (outcome.stop_reason, outcome.answer, judge.samples) == ("generator_failed", None, [])
        judge = ScriptedJudge([4])
        agent = create_agent(whole, [], middleware=[SelfRefineMiddleware(judge)])
        with pytest.raises(GeneratorFailed, match="EndpointConnectionError"):
            agent.invoke({"messages": [HumanMessage("what?")]})
        assert not judge.samples
