"""Whether an answer stands under the certificate of its policy: only one by a model that was calibrated does."""

from __future__ import annotations

from graphs.refinement import Refinement

_NAMES = ("model_name", "model")


def certificate_of(refinement: Refinement) -> str | None:
    """Return the id of the certificate in force; None without one, or where another model answered.

    Providers change what stands behind a name, and a request to a guard chooses its model. Where the released
    answer does not name its model, nothing is compared.
    """
    certificate = refinement.policy.certificate
    if certificate is None:
        return None
    model = answering_model(refinement)
    return certificate.id if model is None or model in (certificate.answer_models or (model,)) else None


def answering_model(refinement: Refinement) -> str | None:
    """Return the model that the released answer names, if it does."""
    released = next((attempt for attempt in refinement.attempts if attempt.number == refinement.released), None)
    if released is None:
        return None
    metadata = released.answer.response_metadata
    name = next((value for key in _NAMES if (value := metadata.get(key))), None)
    return name if isinstance(name, str) else None
