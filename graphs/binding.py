"""Settings, tools and schemas bound to a generator: to a chat model or a direct client, not to an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from graphs.structure import Schema, json_schema_of
from judges.errors import ConfigurationError, one_line, shortened
from judges.models.providers.langchain import chat_model
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_fields import parsed_name

Change = Callable[[Any], Any]
"""Binds something to a chat model."""


def with_settings(generator: object, settings: Mapping[str, Any]) -> object:
    """Return a generator whose model is called with further settings.

    Raises:
        ConfigurationError: If it is no chat model and no direct client.
    """
    remedy = "bind them to the model inside, for instance create_agent(model.bind(...), tools)"
    return _bound(generator, lambda model: model.bind(**settings), "settings", remedy)


def with_tools(generator: object, tools: Sequence[Any], settings: Mapping[str, Any]) -> object:
    """Return a generator whose model may call tools; its caller runs them.

    Raises:
        ConfigurationError: If it is no chat model and no direct client, or the model knows no tools.
    """
    remedy = "give them to the agent inside, SelfRefine(create_agent(model, tools), judge)"

    def bind(model: Any) -> Any:
        try:
            return model.bind_tools(tools, **settings)
        except NotImplementedError:
            raise ConfigurationError(f"{type(model).__name__} has no tools; use a model that has") from None

    return _bound(generator, bind, "tools", remedy)


def with_schema(generator: object, schema: Schema, settings: Mapping[str, Any]) -> object:
    """Return a generator whose model writes JSON that fits a schema, as the endpoint enforces it.

    Raises:
        ConfigurationError: If it is no chat model and no direct client, or the model knows no such replies.
    """
    remedy = "give it to the agent inside, SelfRefine(create_agent(model, tools, response_format=...), judge)"

    def bind(model: Any) -> Any:
        if isinstance(model, OpenAICompatible):
            return model.bind(response_format=json_schema_of(schema, strict=settings.get("strict")))
        return _first_step(model, schema, settings)

    return _bound(generator, bind, "a schema", remedy)


def _first_step(model: BaseChatModel, schema: Schema, settings: Mapping[str, Any]) -> Any:
    """Return a model bound to a schema by its own package, without the parser that comes after it.

    It is bound to the JSON schema, never to the class: some packages parse by a class themselves, and a reply that
    does not fit would be an error there instead of a draft to refuse.
    """
    field = json_schema_of(schema, strict=settings.get("strict"))
    plain = field["json_schema"]["schema"] if field["type"] == "json_schema" else field
    try:
        chain = model.with_structured_output({"title": "answer", **plain}, method="json_schema", **settings)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{type(model).__name__} cannot be bound to a schema by the method 'json_schema': "
            f"{one_line(str(error) or type(error).__name__)}"
        ) from error
    first = chain.first if isinstance(chain, RunnableSequence) else None
    if isinstance(first, RunnableBinding) and "tools" not in first.kwargs:
        is_openais = _is_json_schema(first.kwargs.get("response_format"))
        return first.bind(response_format=field) if is_openais else first
    raise ConfigurationError(
        f"{type(model).__name__} writes no JSON by a schema, only calls of a tool; use an agent with "
        f"response_format=... as generator"
    )


def _is_json_schema(provider_format: object) -> bool:
    return isinstance(provider_format, Mapping) and provider_format.get("type") == "json_schema"


def _bound(generator: object, change: Change, what: str, remedy: str) -> object:
    """Bind something to the model that a generator is, under whatever is bound to it already."""
    if isinstance(generator, str):
        generator = OpenAICompatible.named(generator) if parsed_name(generator) else chat_model(generator)
    if isinstance(generator, OpenAICompatible):
        return change(generator)
    bound = _rebound(generator, change) if isinstance(generator, Runnable) else None
    if bound is None:
        raise ConfigurationError(
            f"{what} cannot be bound to {shortened(generator)}, which is no chat model and no OpenAICompatible; "
            f"{remedy}"
        )
    return bound


def _rebound(runnable: Any, change: Change) -> Any | None:
    """Return a model changed below its bindings, retries and fallbacks; None where there is no model."""
    if isinstance(runnable, BaseChatModel):
        return change(runnable)
    if isinstance(runnable, RunnableBindingBase):
        inner = _rebound(runnable.bound, change)
        return None if inner is None else runnable.model_copy(update={"bound": inner})
    if isinstance(runnable, RunnableWithFallbacks):
        models = [_rebound(model, change) for model in (runnable.runnable, *runnable.fallbacks)]
        if None in models:
            return None
        return runnable.model_copy(update={"runnable": models[0], "fallbacks": models[1:]})
    return None
