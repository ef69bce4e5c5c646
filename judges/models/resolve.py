"""Models and embeddings from what users pass: a LangChain object, a name, or an object of this library."""

from __future__ import annotations

from functools import cache

from judges.errors import ConfigurationError, shortened
from judges.model import EmbeddingModel, JudgeModel
from judges.models.providers.embeddings import LangChainEmbeddings
from judges.models.providers.langchain import LangChainModel, NamedModel, looks_like_chat_model
from judges.models.providers.minilm_and_hhem import MiniLM
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_settings import names_direct_client


def as_model(candidate: object, *, temperature: float | None = 0.0) -> JudgeModel:
    """Return the model for a LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.

    `"openai-compatible:MODEL@BASE_URL"` and `"local:smollm2"` are direct clients, see `OpenAICompatible.named`.

    Args:
        candidate: The model.
        temperature: Sampling temperature for LangChain models that set none; None keeps the provider's default.

    Raises:
        ConfigurationError: If `candidate` is None, or not a model.
    """
    if names_direct_client(candidate):
        return OpenAICompatible.named(candidate, temperature=temperature)
    if isinstance(candidate, str) and ":" in candidate.strip(":"):
        return NamedModel(candidate, temperature=temperature)
    if looks_like_chat_model(candidate):
        return LangChainModel(candidate, temperature=temperature)
    if isinstance(candidate, JudgeModel):
        return candidate
    raise ConfigurationError(
        f"a judge needs a model to ask, not {shortened(candidate)}; give a LangChain chat model or a string such "
        f"as 'openai:gpt-5-mini'"
    )


def as_embeddings(candidate: object) -> EmbeddingModel:
    """Return the embedding model for a LangChain `Embeddings` object, `"minilm"`, or an `EmbeddingModel`.

    Raises:
        ConfigurationError: If it is none of these, or the extra that `"minilm"` needs is missing.
    """
    if candidate == "minilm":
        return _minilm()
    if all(hasattr(candidate, name) for name in ("embed_documents", "aembed_documents")):
        return LangChainEmbeddings(candidate)
    if isinstance(candidate, EmbeddingModel):
        return candidate
    raise ConfigurationError(
        f"texts are embedded by a LangChain Embeddings object, an OpenAICompatibleEmbeddings or 'minilm', "
        f"not by a {type(candidate).__name__}"
    )


@cache
def _minilm() -> EmbeddingModel:
    """Return one shared model, as its weights are large."""
    return MiniLM()
