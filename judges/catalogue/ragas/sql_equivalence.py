"""SQL equivalence: whether the answer's query gives the same rows as the expected one."""

from __future__ import annotations

from typing import ClassVar, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.needed import answer_in, reference_in
from judges.catalogue.parts.sql import Database, Difference, Fixture, parser_of, same_text
from judges.catalogue.parts.text import strip_fence
from judges.entry import Entry
from judges.errors import ConfigurationError, shortened
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Apply, Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Equivalence(ReplySchema):
    """Whether two queries are equivalent."""

    response_explanation: str = Field(description="text: what the query given as response returns")
    reference_explanation: str = Field(description="text: what the query given as reference returns")
    equivalent: bool = Field(description="true or false: whether they return the same rows on every database")
    feedback: str = Field(description="text: what to change in the response; empty if nothing")


EQUIVALENCE: Question[Equivalence] = Question(prompt="sql_equivalence", reply=Equivalence)


class LLMSQLEquivalence(ModelJudge):
    """Judge whether the answer is a query that is equivalent to the reference, given the schema if there is one.

    Queries that are certainly the same are equivalent, which costs no call: with a dialect, those with the same
    syntax tree; else, those with the same text, ignoring blanks, comments and letter case outside of quotes. On an
    example database, rows that differ decide too; equal rows prove nothing, and the model is asked. With
    `variant="compat"` the model alone decides.

    The schema is `reference_contexts`, joined; it may be missing.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        dialect: Dialect of both queries, as sqlglot calls it (`"postgres"`); needs the extra. Without one,
            both are standard SQL, where names ignore letter case.
        database: An SQLite file, or a function that opens a connection of its own, on which both queries are run,
            read-only.
        timeout_s: Seconds for each query that is run.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.llm_sql_equivalence",
        aliases=(
            "LLMSQLEquivalence",
            "SQLSemanticEquivalence",
            "llm_sql_equivalence",
            "sql_equivalence",
            "sql_semantic_equivalence",
            "llm_sql_equivalence_with_reference",
            "ragas.sql_semantic_equivalence",
            "ragas.llm_sql_equivalence_with_reference",
        ),
        asks="Does the answer's query return the same rows as the expected query?",
        needs=("response", "reference"),
        calls="1, or 0 if the queries are the same or an example database tells them apart",
        scale="yes or no",
        source="ragas 0.4",
        differs="Equal texts and syntax trees, and differing rows on an example database, decide without a call; "
        "the schema may be missing.",
        tags=("sql", "query", "database", "text to sql", "same meaning"),
        examples=('dialect="postgres"', 'database=lambda: sqlite3.connect("shop.db")', "timeout_s=2.0"),
        follows="both generations, which agree",
    )
    pack = "sql_equivalence"

    def __init__(
        self,
        model: object = None,
        *,
        dialect: str = "",
        database: Database | None = None,
        timeout_s: float = 5.0,
        **settings: Unpack[ModelSettings],
    ) -> None:
        super().__init__(model, questions=(EQUIVALENCE,), **settings)
        if type(timeout_s) not in (int, float) or timeout_s <= 0:
            raise ConfigurationError(f"timeout_s is a number of seconds above 0, not {shortened(timeout_s)}")
        self._fixture = None if database is None else Fixture(database=database, timeout_s=timeout_s)
        self._parse = None if self.compat else parser_of(dialect, judge=self.name)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare the texts, then the rows, then ask."""
        response, reference = (strip_fence(text).strip() for text in (answer_in(sample), reference_in(sample)))
        if not self.compat and self._same(response, reference):
            return self._verdict(rationale="the queries are the same", equivalent=True)
        if not self.compat and self._fixture is not None:
            fixture = self._fixture
            difference = yield Apply(lambda _: fixture.difference(response, reference), sample)
            if isinstance(difference, Difference):
                explanation = self._explain(sample, difference)
                return self._verdict(rationale=explanation, feedback=explanation, equivalent=False)
        reply = yield from self.ask(EQUIVALENCE, sample, _data(sample, response, reference))
        reasons = f"{reply.response_explanation}\n{reply.reference_explanation}"
        feedback = "" if reply.equivalent else reply.feedback
        return self._verdict(rationale=reasons, feedback=feedback, equivalent=reply.equivalent)

    def _verdict(self, *, equivalent: bool, rationale: str, feedback: str = "") -> Verdict:
        return Verdict.checked(equivalent, rationale=rationale, feedback=feedback)

    def _same(self, response: str, reference: str) -> bool:
        """Check whether the queries are certainly the same; a wrong yes costs more than a call."""
        if response == reference:
            return True
        if self._parse is None:
            return same_text(response, reference)
        trees = self._parse(response)
        return bool(trees) and trees == self._parse(reference)

    def _explain(self, sample: Sample, difference: Difference) -> str:
        if difference.error:
            return self.say("fails", sample, error=difference.error)
        return self.say("rows", sample, given=difference.rows, wanted=difference.expected_rows)


def _data(sample: Sample, response: str, reference: str) -> dict[str, JsonValue]:
    schema = "\n".join(sample.reference_contexts or ()).strip()
    return {**({"schema": schema} if schema else {}), "response": response, "reference": reference}
