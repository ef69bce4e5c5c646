"""Options that the commands on runs have in common; only typer is loaded for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.", show_default=False)]
Rows = Annotated[
    Path,
    typer.Argument(
        metavar="ROWS",
        help="Dataset: .jsonl (one object per line), .json, .csv or .tsv with a header, or .parquet.",
        show_default=False,
    ),
]
Judges = Annotated[
    list[str],
    typer.Option(
        "--judge",
        metavar="NAME[:KEY=VALUE,...]",
        help="Judge by name, with its settings, module:object, or a judges.toml; repeat it for several.",
        show_default=False,
    ),
]
Out = Annotated[str, typer.Option("--out", metavar="RUN", help="New folder of the run.", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="PROVIDER:NAME", help="Model that the judges ask. E.g. openai:gpt-5-mini"),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="OpenAI-compatible server of the model. E.g. http://localhost:8000/v1"
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", metavar="en|zh|ru", help="Language of the judges' prompts. Default: the row's."),
]
MaxConcurrency = Annotated[
    int, typer.Option("--max-concurrency", min=1, metavar="N", help="Model calls in flight at once.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Judge the first N rows only.")]
KeepUnreadable = Annotated[
    bool, typer.Option("--keep-unreadable", help="Keep rows that cannot be read, unscored, instead of stopping.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of a table.")]
Batch = Annotated[
    bool,
    typer.Option("--batch", help="Send calls by the provider's batch endpoint: half the price, within a day."),
]
Poll = Annotated[
    float, typer.Option("--poll", min=0.01, metavar="SECONDS", help="Seconds between two looks at a batch.")
]
Processes = Annotated[
    int,
    typer.Option(
        "--processes", min=1, metavar="N", help="Judge in N processes, which divide rows and limits between them."
    ),
]
Rate = Annotated[int | None, typer.Option("--rate", min=1, metavar="N", help="Most model calls a minute.")]
TokensPerMinute = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, metavar="N", help="Most tokens a minute.")
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", min=1, metavar="N", help="Stop after N model calls; resume later.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, metavar="USD", help="Stop before more is spent; resume later.")
]
Prices = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help='Prices a million tokens: {"NAME": {"input": 1, "output": 2}}'),
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-under", metavar="JUDGE=SCORE", help="Least mean score of a judge; exit code 1 below. Repeatable."
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="RUN", help="A run before: exit code 1 if a judge's scores fell since."),
]
MaxUnscored = Annotated[
    float,
    typer.Option(
        "--max-unscored",
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of rows that a judge of the gate may fail to judge; exit code 3 above.",
    ),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the gate as JUnit XML.")]
Shard = Annotated[
    str | None, typer.Option("--shard", metavar="I/N", help="Judge part I of N only; see `refine merge`.")
]
AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Judge what changed in dataset or judges since again.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Judge cells again whose judging failed.")]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="FIELD=COLUMN", help="Column that holds a field. E.g. answer=outputs.text; repeatable."
    ),
]
Encoding = Annotated[str, typer.Option("--encoding", metavar="NAME", help="Encoding of the file. E.g. latin-1")]
DatasetMoved = Annotated[
    Path | None, typer.Option("--rows", metavar="ROWS", help="Where the dataset is now, if it was moved.")
]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="COLUMN", help="Also by the values of this column of the rows. Repeatable."),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of resamples and sign flips.")]
