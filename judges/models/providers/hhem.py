"""A classifier of pairs on this machine: HHEM, or any sequence classifier in the format of Hugging Face."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from judges.errors import ConfigurationError, one_line, shortened
from judges.runtime.pickling import SharedByCopies

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
        raise ConfigurationError(
            f"label is the one that means 'supported', one of {shortened(dict(labels))}, not {shortened(label)}"
        )
    return matches[0]


def _means_supported(name: str) -> bool:
    """Check whether a label's name, such as `entailment`, means "supported"; `not_entailment` does not."""
    lowered = name.lower()
    return any(part in lowered for part in _SUPPORTING) and not lowered.startswith(_OPPOSING)
