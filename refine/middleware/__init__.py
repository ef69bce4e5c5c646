"""`SelfRefineMiddleware`: judges the answers of an agent made by `langchain.agents.create_agent`."""

from __future__ import annotations

from judges import ConfigurationError
from judges.first_guesses import no_such_name, of_package

try:
    import langchain.agents  # noqa: F401 - only looked for
except ImportError as error:
    raise ConfigurationError("refine.middleware needs LangChain's agents: install selfrefine[agents]") from error

from refine.middleware.agent import SelfRefineMiddleware

__all__ = ["SelfRefineMiddleware"]


def __getattr__(name: str) -> object:
    hint = "" if name.startswith("_") else of_package(__name__, name, __all__)
    raise no_such_name(__name__, name, hint)
