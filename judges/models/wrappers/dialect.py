"""Using a model with the dialect it was trained to judge in."""

from __future__ import annotations

from typing import Literal, get_args

from judges.errors import ConfigurationError, shortened
from judges.model import JudgeModel
from judges.models.dialects.graded import FLOW_JUDGE, GLIDER, PROMETHEUS
from judges.models.dialects.minicheck import MiniCheck
from judges.models.dialects.protocol import Dialect
from judges.models.resolve import as_model
from judges.models.wrappers.wrapped import Wrapped

DialectName = Literal["flow_judge", "glider", "minicheck", "prometheus"]

_DIALECTS: dict[DialectName, Dialect] = {
    "flow_judge": FLOW_JUDGE,
    "glider": GLIDER,
    "minicheck": MiniCheck(),
    "prometheus": PROMETHEUS,
}


def speaking(model: object, dialect: DialectName | Dialect, *, temperature: float | None = 0.0) -> JudgeModel:
    """Return a model that is asked in the format of its own that it was trained to judge in.

    The result goes wherever a judge takes a model, for instance
    `Helpfulness(speaking("ollama:bespoke-minicheck", "minicheck"))`.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        dialect: `"flow_judge"` (Flow-Judge), `"glider"` (GLIDER), `"minicheck"` (Bespoke-MiniCheck: does the
            evidence support the answer, whatever the judge's own criterion), `"prometheus"` (Prometheus 2), or a
            `Dialect` of your own. Scores are mapped onto the judge's levels by their place on the scale: 1 to 5
            becomes 1, 2, 3, 3, 4 of four levels; yes and no become the highest and the lowest.
        temperature: Sampling temperature for models that set none; None keeps the provider's default. The judge's
            own `temperature` does not reach a model that is wrapped like this.

    Raises:
        ConfigurationError: If there is no such dialect, or `model` is not a model.
    """
    own_dialect = _DIALECTS.get(dialect) if isinstance(dialect, str) else dialect
    if not (hasattr(own_dialect, "compose") and hasattr(own_dialect, "read")):
        names = ", ".join(get_args(DialectName))
        raise ConfigurationError(f"a dialect is one of {names}, or has compose and read; not {shortened(dialect)}")
    assert own_dialect is not None  # noqa: S101 - it has compose and read
    return Wrapped(as_model(model, temperature=temperature), own_dialect=own_dialect)
