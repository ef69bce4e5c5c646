"""The judge: an immutable object that turns a sample into a verdict, called sync or async."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from judges import drive
from judges.entry import Entry, Explanation
from judges.first_guesses import OF_A_JUDGE, HintsAtGuesses
from judges.misuse import refuse_misuse
from judges.model import JudgeModel
from judges.requests import Deliberation
from judges.sample import Sample
from judges.settings import settings_of
from judges.verdict import Verdict


class Judge(HintsAtGuesses, ABC):
    """Turns a sample into a verdict.

    A judge implements its algorithm once, in `deliberate`, and stores nothing on itself while it works, so that
    one object can be used by any number of threads and tasks at once.

    Attributes:
        name: The judge's name in verdicts, panels and traces.
    """

    name: str
    _guesses = OF_A_JUDGE

    if not TYPE_CHECKING:  # type checkers read the class's own signature

        def __new__(cls, *arguments: object, **settings: object) -> Self:
            """Return a new judge; a setting that it does not have is refused with what to use instead.

            Raises:
                TypeError: If there is none such, or it is given by position and has to be named.
            """
            if arguments or settings:
                refuse_misuse(cls, arguments, settings)
            return super().__new__(cls)

    def __repr__(self) -> str:
        models = ", ".join(model.name for model in self.models)
        return f"{type(self).__name__}({self.name!r}{f', model={models!r}' if models else ''})"

    @abstractmethod
    def deliberate(self, sample: Sample) -> Deliberation:
        """Yield the requests needed to judge the sample, and return the verdict. Does no I/O."""

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models that this judge, and any judge inside it, asks."""
        return ()

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that the judge reads, so that they may be given as keywords, too."""
        return ()

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs, before anything is spent."""
        model_names = tuple(model.name for model in self.models)
        entry = getattr(self, "entry", None)
        if not isinstance(entry, Entry):
            calls = "not told" if model_names else "0"
            return Explanation(
                judge=self.name,
                models=model_names,
                calls=calls,
                reads=tuple(Sample.model_fields),
                settings=settings_of(type(self)),
            )
        return Explanation(
            judge=self.name,
            models=model_names,
            asks=entry.asks,
            needs=entry.needs,
            reads=entry.reads,
            calls="not told" if model_names and entry.calls == "0" else entry.calls,
            scale=entry.scale,
            better=entry.better,
            settings=settings_of(type(self)),
        )

    def __call__(self, sample: object = None, /, **fields: object) -> Verdict:
        """Judge a sample, a mapping, or keyword fields such as `user_input=..., response=...`.

        If judging is not possible, the verdict is unscored and has a reason.

        Raises:
            BadSample: If the arguments cannot be read as a sample.
            ConfigurationError: If the judge or its model is set up wrongly.
        """
        return drive.run(self, self.read(sample, **fields))

    async def acall(self, sample: object = None, /, **fields: object) -> Verdict:
        """Judge without blocking; otherwise the same as calling the judge."""
        return await drive.arun(self, self.read(sample, **fields))

    def read(self, source: object = None, /, **fields: object) -> Sample:
        """Return the sample that the judge is called with: keywords are its fields, or metadata the judge reads.

        Raises:
            BadSample: If the arguments cannot be read as a sample; the message names the field.
        """
        own = {name: fields.pop(name) for name in self.metadata_keys if name in fields}
        if own and source is None and not fields:
            return Sample.model_validate({"metadata": own})
        sample = Sample.read(source, **fields)
        return Sample.read(sample, metadata={**sample.metadata, **own}) if own else sample
