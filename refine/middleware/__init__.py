"""`SelfRefineMiddleware`: judges the answers of an agent made by `langchain.agents.create_agent`."""

from __future__ import annotations

from judges import ConfigurationError
from judges.first_guesses import names_of

try:
    import langchain.agents  # noqa: F401 - only looked for
except ImportError as error:
    raise ConfigurationError("refine.middleware needs LangChain's agents: install selfrefine[agents]") from error

from refine.middleware.agent import SelfRefineMiddleware

__all__ = ["SelfRefineMiddleware"]


__getattr__ = names_of(__name__, __all__)
