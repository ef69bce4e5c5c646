"""What is bound to a `SelfRefine` goes to its generator: settings, tools, a schema of the answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from langchain_core.runnables import Runnable, RunnableLambda

from graphs import Policy
from graphs.binding import with_schema, with_settings, with_tools
from graphs.structure import Schema, Structure, checked_first
from judges import ConfigurationError

_OWN = frozenset({"evidence"})
"""Settings of `invoke` itself, which LangChain's own `bind` keeps."""


class BindsToGenerator(Runnable[Any, Any]):
    """A runnable around a generator, to which it binds as a chat model binds to itself."""

    policy: Policy

    @property
    @abstractmethod
    def generator(self) -> object:
        """The generator, as it was given."""

    @property
    @abstractmethod
    def judge(self) -> object:
        """The judge, as it was given."""

    @abstractmethod
    def around(self, **parts: object) -> Self:
        """Return the same with another `generator` or `judge`."""

    def bind(self, **kwargs: Any) -> Runnable[Any, Any]:
        """Return the same with settings bound to the generator, for instance `temperature=0.7`.

        `evidence=...` is bound to the call.

        Args:
            kwargs: Settings of the chat model or request fields of the direct client.

        Raises:
            ConfigurationError: If the generator is neither; then bind them to the model inside it.
        """
        own = {name: value for name, value in kwargs.items() if name in _OWN}
        settings = {name: value for name, value in kwargs.items() if name not in _OWN}
        bound = self.around(generator=with_settings(self.generator, settings)) if settings else self
        return super(BindsToGenerator, bound).bind(**own) if own else bound

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Self:
        """Return the same whose generator may call tools; a turn that calls one is returned unjudged.

        Args:
            tools: Tools in any form that the generator's own `bind_tools` takes.
            kwargs: Its settings, for instance `tool_choice="auto"`.

        Raises:
            ConfigurationError: If the generator is no chat model and no direct client: an agent has its tools.
        """
        return self.around(generator=with_tools(self.generator, tools, kwargs))

    def with_structured_output(
        self, schema: Schema, *, include_raw: bool = False, method: str = "json_schema", **kwargs: Any
    ) -> Runnable[Any, Any]:
        """Return a runnable to objects of a schema.

        The generator writes JSON by the schema. An answer that does not fit is refused without asking the judge,
        and asked for again; the judge judges the JSON.

        Args:
            schema: A pydantic class, a TypedDict, a dataclass, or a JSON schema.
            include_raw: Whether to return `{"raw": answer, "parsed": object, "parsing_error": error}`.
            method: `"json_schema"`, the only one: a call of a tool is no answer that can be judged.
            kwargs: Settings of the generator's own `with_structured_output`, for instance `strict=True`.

        Raises:
            ConfigurationError: If the generator is no chat model and no direct client, or the schema is none.
        """
        if method != "json_schema":
            raise ConfigurationError(
                f"method={method!r} gives no answer that can be judged; leave it at 'json_schema', or give "
                f"an agent with response_format=... as generator"
            )
        structure = Structure(schema)
        judge = checked_first(structure, self.judge, success_rating=self.policy.success_rating)
        bound = self.around(generator=with_schema(self.generator, schema, kwargs), judge=judge)
        return bound | RunnableLambda(structure.read_with_raw if include_raw else structure.read)
