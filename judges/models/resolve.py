"""Models and embeddings by whatever a user has at hand: an object of LangChain's, a name, one of ours."""

from __future__ import annotations

from functools import cache

from judges.errors import ConfigurationError
from judges.model import EmbeddingModel, JudgeModel
from judges.models.providers.embeddings import LangChainEmbeddings
from judges.models.providers.langchain import LangChainModel, NamedModel, looks_like_chat_model
from judges.models.providers.minilm import MiniLM


def as_model(given: object, *, temperature: float | None = 0.0) -> JudgeModel:
    """Accept a LangChain chat model, a `"provider:model"` string, or anything that is a `JudgeModel` already.

    Args:
        given: The model.
        temperature: Sampling temperature asked of a LangChain model that has none of its own; None leaves it
            to the provider.

    Raises:
        ConfigurationError: If nothing was given, or something that is no model.
    """
    if isinstance(given, str) and ":" in given.strip(":"):
        return NamedModel(given, temperature=temperature)
    if looks_like_chat_model(given):
        return LangChainModel(given, temperature=temperature)
    if isinstance(given, JudgeModel):
        return given
    raise ConfigurationError(
        f"a judge needs a model to ask, not {given!r}; give a LangChain chat model or a string such as "
        f"'openai:gpt-5-mini'"
    )


def as_embeddings(given: object) -> EmbeddingModel:
    """Accept a LangChain `Embeddings` object, `"minilm"`, or anything that is an `EmbeddingModel` already.

    Raises:
        ConfigurationError: If it is none of these, or the extra that `"minilm"` needs is missing.
    """
    if given == "minilm":
        return _minilm()
    if all(hasattr(given, name) for name in ("embed_documents", "aembed_documents")):
        return LangChainEmbeddings(given)
    if isinstance(given, EmbeddingModel):
        return given
    raise ConfigurationError(
        f"texts are embedded by a LangChain Embeddings object, an OpenAICompatibleEmbeddings or 'minilm', "
        f"not by a {type(given).__name__}"
    )


@cache
def _minilm() -> EmbeddingModel:
    """Give all who ask by name one and the same, as the weights are large."""
    return MiniLM()
