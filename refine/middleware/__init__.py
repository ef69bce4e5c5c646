"""`SelfRefineMiddleware`: judges the answers of an agent made by `langchain.agents.create_agent`."""

from __future__ import annotations

from judges import ConfigurationError

try:
    import langchain.agents  # noqa: F401 - only looked for
except ImportError as error:
    raise ConfigurationError("refine.middleware needs LangChain's agents: install selfrefine[agents]") from error

from refine.middleware.agent import SelfRefineMiddleware

__all__ = ["SelfRefineMiddleware"]
