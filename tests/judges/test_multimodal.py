"""Images and audio in messages, as a judge's model is sent them, and as one that takes none is told of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from judges import ConfigurationError, Length, Sample, load
from judges.fingerprint import fingerprint
from judges.messages import Message
from judges.models.providers.openai import OpenAICompatible
from judges.models.wrappers.cache import cached
from judges.models.wrappers.wrapped import speaking
from judges.offline import evaluate, read_rows
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.model_server import Asked, ModelServer, Reply, serving

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
ELSEWHERE = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png", "detail": "low"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRgAAAA==", "format": "wav"}}
VIDEO = {"type": "video_url", "video_url": {"url": "https://v"}}
TEXT = {"type": "text", "text": "What is it? "}
GOOD = {"rationale": "so", "rating": 4, "feedback": ""}


def about(*parts: dict[str, Any], **fields: Any) -> Sample:
    """Make a sample whose question has parts that are no text."""
    return Sample.read(messages=[{"role": "user", "content": [TEXT, *parts]}], answer="A red dot.", **fields)


def graded(_: Asked) -> Reply:
    """Answer as a judge that is content."""
    return Reply(calls=(("Assessment", GOOD),))


def judge_at(server: ModelServer, kind: str, **settings: Any) -> Any:
    """Load a judge whose model is at a server, by the direct client or by LangChain's."""
    direct = OpenAICompatible(server.url, model="m", api_key="k")
    by_langchain = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), max_retries=0)
    return load("helpfulness", model=direct if kind == "direct" else by_langchain, **settings)


@pytest.mark.parametrize("kind", ["direct", "langchain"])
def test_images_and_audio_reach_a_model_over_http(kind: str) -> None:
    """As content parts behind the text, each announced as evidence, the task once more behind them."""
    with serving(graded) as server:
        judge = judge_at(server, kind, multimodal=True)
        assert judge(about(PICTURE, VIDEO, SOUND, ELSEWHERE)).rating == 4
        assert asyncio.run(judge.acall(about(PICTURE))).rating == 4
        assert judge_at(server, kind)(about(PICTURE)).rating == 4
    seen, later, plain = (body["messages"][-1]["content"] for body in server.requests)
    types = [part["type"] for part in seen]
    assert types == ["text", "text", "image_url", "text", "input_audio", "text", "image_url", "text"]
    assert seen[2]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert seen[4]["input_audio"] == {"data": "UklGRgAAAA==", "format": "wav"}
    assert seen[6]["image_url"]["url"] == "https://pictures.example/cat.png"
    shown = json.loads(seen[0]["text"].split("\n", 2)[2].rsplit("\n", 2)[0])
    (message,) = shown["conversation"]
    assert message["attachments"] == ["attachment 1", "attachment 2", "attachment 3"]
    assert message["parts_not_shown"] == ["video_url"]
    assert "Attachment 2 (audio). It is evidence" in seen[3]["text"]
    assert seen[0]["text"].endswith(seen[-1]["text"])
    assert [part["type"] for part in later] == ["text", "text", "image_url", "text"]
    assert isinstance(plain, str)
    assert '"parts_not_shown": ["image_url"]' in plain
    assert PNG not in plain


def test_a_repair_keeps_the_attachments() -> None:
    """They stay at the message of the data when the model is asked again."""
    replies = iter([Reply(calls=(("Assessment", {"rating": 9}),)), graded({})])
    with serving(lambda _: next(replies)) as server:
        assert judge_at(server, "direct", multimodal=True)(about(PICTURE)).rating == 4
    contents = [message["content"] for message in server.requests[1]["messages"]]
    assert [isinstance(content, list) for content in contents[-3:]] == [True, False, False]


@pytest.mark.parametrize(
    ("part", "url", "data"),
    [
        (PICTURE, PICTURE["image_url"]["url"], ""),
        ({"type": "image_url", "image_url": "https://x/y.png"}, "https://x/y.png", ""),
        ({"type": "input_image", "image_url": "https://x/y.png"}, "https://x/y.png", ""),
        ({"type": "image", "url": "https://x/y.png"}, "https://x/y.png", ""),
        ({"type": "image", "base64": PNG, "mime_type": "image/png"}, "", PNG),
        ({"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}, "", PNG),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, "", PNG),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, "https://x/y.png", ""),
        ({"type": "media", "mime_type": "image/png", "data": PNG}, "", PNG),
        ({"type": "image", "base64": PNG}, "", PNG),
    ],
)
def test_images_are_read_in_the_forms_of_providers(part: dict[str, Any], url: str, data: str) -> None:
    """OpenAI's two, LangChain's two, Anthropic's, Gemini's; what they become is the same."""
    (media,) = Message.model_validate({"role": "user", "content": [TEXT, part]}).media
    assert (media.kind, media.url, media.data) == ("image", url, data)
    assert media.mime_type == ("image/png" if data else "")
    assert PNG not in repr(media)
    blocks = {"url": url} if url.startswith("https") else {"base64": PNG, "mime_type": "image/png"}
    assert media.langchain_block() == {"type": "image", **blocks}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "file_id": "f1"},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "audio", "url": "https://x/y.mp3"},
        {"type": "image_url", "image_url": None},
        {"type": "input_audio", "input_audio": {}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
        VIDEO,
    ],
    ids=str,
)
def test_what_cannot_be_sent_stays_named(part: dict[str, Any]) -> None:
    """Files known by an id, other schemes, sounds by an address: the model is told that it was not shown them."""
    model = ScriptedModel([GOOD])
    assert load("helpfulness", model=model, multimodal=True)(about(part)).rating == 4
    content = model.prompts[0][-1].content
    assert isinstance(content, str)
    assert '"parts_not_shown"' in content


def test_every_place_of_a_conversation_is_shown() -> None:
    """Messages of LangChain, steps and tool results included; each picture stands behind the message it is of."""
    messages = [
        HumanMessage([TEXT, PICTURE]),
        AIMessage("", tool_calls=[{"name": "draw", "args": {}, "id": "1"}]),
        ToolMessage([ELSEWHERE], tool_call_id="1"),
    ]
    model = ScriptedModel([GOOD])
    load("helpfulness", model=model, multimodal=True)(messages=messages, answer="Done.")
    content: Any = model.prompts[0][-1].content
    assert [block["type"] for block in content] == ["text", "text", "image", "text", "image", "text"]
    claims = ScriptedModel(
        [
            {"claims": ["It is red."]},
            {"items": [{"number": 1, "reason": "so", "verdict": "supported"}]},
        ]
    )
    judge = load("hallucination", model=claims, multimodal=True)
    judge(messages=messages, answer="It is red.")
    assert any(block["type"] == "image" for block in claims.prompts[1][-1].content if isinstance(block, dict))


def test_a_model_that_takes_none_is_reported(tmp_path: Path) -> None:
    """By the profile of a LangChain model, or because it was trained to judge in a format of its own."""
    model = ScriptedModel([GOOD])
    model.profile = {"image_inputs": True, "audio_inputs": False}
    load("helpfulness", model=cached(model, tmp_path / "cache.db"), multimodal=True)(about(PICTURE, SOUND))
    content: Any = model.prompts[0][-1].content
    assert [block["type"] for block in content if isinstance(block, dict)] == ["text", "text", "image", "text"]
    assert '"parts_not_shown": ["input_audio"]' in content[0]["text"]
    trained = ScriptedModel(["Feedback: so. [RESULT] 5"])
    load("helpfulness", model=speaking(trained, "prometheus"), multimodal=True)(about(PICTURE))
    assert isinstance(trained.prompts[0][-1].content, str)


def test_it_counts_in_fingerprints_caches_and_settings(tmp_path: Path) -> None:
    """Another picture is another question; a wrong setting is one line."""
    model = ScriptedModel([GOOD, GOOD])
    plain, shown = (load("tone", model=model, tone="dry", multimodal=shown) for shown in (False, True))
    assert fingerprint(plain) != fingerprint(shown)
    judge = load("helpfulness", model=cached(model, tmp_path / "cache.db"), multimodal=True)
    for picture in (PICTURE, ELSEWHERE, PICTURE):
        assert judge(about(picture)).rating == 4
    assert len(model.prompts) == 2
    with pytest.raises(ConfigurationError, match="multimodal is True or False, not 'yes'"):
        load("helpfulness", model=model, multimodal="yes")


def test_runs_and_the_loop_show_them_and_files_do_not_keep_them(tmp_path: Path) -> None:
    """A run reads its rows from a file and shows the picture; a recorded loop names it without its content."""
    model = ScriptedModel([GOOD] * 2)
    judge = load("helpfulness", model=model, multimodal=True)
    rows = iter([about(PICTURE).model_dump(mode="json", exclude_defaults=True)])
    assert evaluate(rows, judge, out=tmp_path / "run").rows[0].verdicts["helpfulness"].rating == 4
    record = tmp_path / "attempts.jsonl"
    chat = SelfRefine(ScriptedModel(["A dot."]), judge, record=record)
    chat.invoke([HumanMessage([TEXT, PICTURE])])
    for prompt in model.prompts:
        assert [block["type"] for block in prompt[-1].content if isinstance(block, dict)].count("image") == 1
    text = record.read_text(encoding="utf-8")
    assert PNG not in text
    assert "image_url" in text
    assert evaluate(read_rows(record), Length(at_most=99)).rows[0].verdicts["length"].passed
