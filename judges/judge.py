"""The judge: an immutable object that turns a sample into a verdict, called sync or async."""

from __future__ import annotations

from abc import ABC, abstractmethod

from judges import drive
from judges.entry import Entry, Explanation
from judges.model import JudgeModel
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Judge(ABC):
    """Turns a sample into a verdict.

    A judge writes its algorithm once, in `deliberate`, and keeps nothing on itself while it works, so that one
    object serves any number of threads and tasks at once.

    Attributes:
        name: What the judge is called in verdicts, panels and traces.
    """

    name: str

    @abstractmethod
    def deliberate(self, sample: Sample) -> Deliberation:
        """Yield what is needed to judge the sample, and return the verdict. Does no I/O."""

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models this judge, and any judge inside it, asks."""
        return ()

    def explain(self) -> Explanation:
        """Tell what it needs, asks and costs, before anything is spent."""
        asked = tuple(model.name for model in self.models)
        entry = getattr(self, "entry", None)
        if not isinstance(entry, Entry):
            return Explanation(judge=self.name, models=asked, calls="not told" if asked else "0")
        return Explanation(
            judge=self.name,
            models=asked,
            asks=entry.asks,
            needs=entry.needs,
            calls="not told" if asked and entry.calls == "0" else entry.calls,
            scale=entry.scale,
            better=entry.better,
        )

    def __call__(self, sample: object = None, /, **fields: object) -> Verdict:
        """Judge a sample, a mapping, or keyword fields such as `user_input=..., response=...`.

        A judge that cannot judge says so: the verdict is then unscored, with a reason.

        Raises:
            BadSample: If what was given cannot be read as a sample.
            ConfigurationError: If the judge or its model is set up wrongly.
        """
        return drive.run(self, Sample.read(sample, **fields))

    async def acall(self, sample: object = None, /, **fields: object) -> Verdict:
        """Judge without blocking; otherwise the same as calling the judge."""
        return await drive.arun(self, Sample.read(sample, **fields))
