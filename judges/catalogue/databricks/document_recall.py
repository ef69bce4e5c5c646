"""Document recall: what share of the expected documents did the retriever find?"""

from __future__ import annotations

from typing import ClassVar

from judges.catalogue.ragas.id_based import IDBasedContextRecall
from judges.entry import Entry


class DocumentRecall(IDBasedContextRecall):
    """Judge what share of the expected documents was retrieved: found / expected, on sets of ids (`doc_uri`).

    Args:
        settings: See `judges.catalogue.metric.Settings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.document_recall",
        aliases=("document_recall",),
        asks="What share of the expected documents was retrieved?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="Databricks built-in judges",
        differs="No expected documents is unscored.",
        tags=("rag", "retrieval", "search", "ids"),
    )
