"""What a certificate is about, and whether it still is: the judge, the generator and the policy of a loop."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding
from pydantic import JsonValue

from graphs import augment
from graphs.policy import Policy
from judges.certificate import Subject
from judges.errors import ConfigurationError, one_line
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.models.identity import identity_of, unread_settings
from judges.models.providers.langchain import LangChainModel
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_settings import names_direct_client

_WITHOUT_INFLUENCE = frozenset(
    {
        "success_rating",
        "success_score",
        "certificate",
        "on_alarm",
        "on_exhausted",
        "fallback",
        "max_revisions",
        "prices",
        "show_drafts",
        "log_texts",
    }
)
"""Settings that change nothing about the answers that pass, beside the threshold itself."""

_ALWAYS = ("max_attempts", "patience")
_LONGEST_NAME = 80


@dataclass(frozen=True)
class GeneratorIdentity:
    """What can be said of a generator.

    Args:
        name: Its name.
        digest: Fingerprint as far as it can be read; empty if it cannot.
        known: Whether that covers all of it.
    """

    name: str
    digest: str = ""
    known: bool = False


class CertificateWarning(UserWarning):
    """A certificate depends on something that cannot be compared with what it was issued for."""


def subject_of(judge: Judge, policy: Policy, generator: object = None) -> Subject:
    """Return what a certificate of this loop is about; what cannot be read is empty, and nothing is raised."""
    identity = _identity_of(generator)
    return Subject(
        judge=judge.name,
        judge_digest=_digest(judge),
        judge_models=tuple(model.name for model in judge.models),
        judge_models_digest=_digest(judge.models) if judge.models else "",
        generator=identity.name[:_LONGEST_NAME],
        generator_digest=identity.digest,
        generator_known=identity.known,
        policy=settings_of(policy),
    )


def check_certificate(judge: Judge, policy: Policy, generator: object = None) -> tuple[str, ...]:
    """Check that the certificate of a policy, if it has one, is about this loop.

    Returns:
        What cannot be compared, a line each.

    Raises:
        ConfigurationError: If something is known to differ; the message names what.
    """
    certificate = policy.certificate
    if certificate is None:
        return ()
    now = subject_of(judge, policy, generator)
    changes = certificate.subject.changes(now)
    if changes:
        raise ConfigurationError(
            f"certificate {certificate.id[:8]} is not about this loop: {'; '.join(changes)}. Set it back, or "
            f"record, label and certify this loop"
        )
    doubts = [
        f"certificate {certificate.id[:8]}: whether {what} is as it was when this was issued cannot be seen in "
        f"full, and is yours to ensure"
        for what in [*certificate.subject.doubts(now), *_unread(judge)]
    ]
    if certificate.assumes:
        doubts.append(f"certificate {certificate.id[:8]} assumes {certificate.assumes}")
    return tuple(doubts)


def _unread(judge: Judge) -> list[str]:
    """Return the settings of the judge's models that no fingerprint covers."""
    names = {name: unread_settings(model) for model in judge.models for name in [model.name]}
    return [f"{', '.join(unread)} of the judge's model {name!r}" for name, unread in names.items() if unread]


def _digest(part: object) -> str:
    try:
        return fingerprint(part)
    except Exception:  # noqa: BLE001 - one of the user's that has no fingerprint is unknown, which is told
        return ""


def settings_of(policy: Policy) -> dict[str, JsonValue]:
    """Return the settings of a policy that a certificate depends on."""
    settings = {
        name: _plain(getattr(policy, name))
        for name, field in Policy.model_fields.items()
        if name in _ALWAYS or (name not in _WITHOUT_INFLUENCE and getattr(policy, name) != field.default)
    }
    if policy.on_exhausted == "interrupt" and policy.max_revisions:
        settings["max_revisions"] = policy.max_revisions
    return {**settings, "feedback": _feedback(policy)}


def _feedback(policy: Policy) -> str:
    """Return a digest of what the generator is shown on a retry, our own words included."""
    augmenter = policy.augment
    function = augment.named(augmenter) if isinstance(augmenter, str) else augmenter
    return _digest([function, augment.words()])


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping | tuple) and not value:
        return None
    return _digest(value)


def _identity_of(generator: object) -> GeneratorIdentity:
    try:
        return _read(generator)
    except Exception as error:  # noqa: BLE001 - what cannot be read is unknown, which is told
        return GeneratorIdentity(one_line(f"{type(generator).__name__} ({type(error).__name__})"))


def _read(generator: object) -> GeneratorIdentity:
    if isinstance(generator, GeneratorIdentity):
        return generator
    if names_direct_client(generator):
        generator = OpenAICompatible.named(generator)
    if isinstance(generator, str):
        return GeneratorIdentity(generator, fingerprint("name", generator), known=True)
    if isinstance(generator, OpenAICompatible):
        return GeneratorIdentity(generator.name, fingerprint("model", identity_of(generator)), known=True)
    chat = _chat_model_in(generator)
    if chat is not None:
        model = LangChainModel(generator, temperature=None)
        return GeneratorIdentity(model.name, fingerprint("model", identity_of(model)), known=True)
    if inspect.isroutine(generator):
        code = getattr(inspect.unwrap(generator), "__code__", None)
        name = str(getattr(generator, "__name__", type(generator).__name__))
        digest = "" if code is None else fingerprint("code", code.co_code, list(code.co_names))
        return GeneratorIdentity(name, digest)
    name_attribute = getattr(generator, "name", None)
    return GeneratorIdentity(
        name_attribute if isinstance(name_attribute, str) and name_attribute else type(generator).__name__
    )


def _chat_model_in(generator: object) -> BaseChatModel | None:
    while isinstance(generator, RunnableBinding):
        generator = generator.bound
    return generator if isinstance(generator, BaseChatModel) else None
