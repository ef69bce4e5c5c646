"""The recipe for Spark in docs/runs.md, run as it stands, if asked for by `TEST_SPARK=required`.

It needs `pip install pyspark` and Debian's package `default-jre-headless`.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from pathlib import Path

import pytest

from judges import Length
from judges.offline import evaluate
from tests.snippets import ROOT, all_blocks

pytestmark = pytest.mark.skipif(os.environ.get("TEST_SPARK") != "required", reason="set TEST_SPARK=required")


@pytest.mark.filterwarnings("ignore")  # Spark's own code warns of itself
def test_the_recipe_gives_the_rows_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions give the verdicts of one process, and a second job reads them from the runs' folders."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not installed for the other tests

    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    (recipe,) = [block for _, block in all_blocks(page) if block.startswith("# on_spark.py")]
    (tmp_path / "on_spark.py").write_text(recipe, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    on_spark = importlib.import_module("on_spark")
    rows = [{"id": i, "question": f"q {i}", "answer": None if i == 3 else "a" * i * 10} for i in range(20)]
    expected = evaluate(rows, Length(at_most=80)).scores["length"]
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        table = spark.createDataFrame(rows, schema="id long, question string, answer string")
        for _ in range(2):
            judged = on_spark.judged(table, str(tmp_path / "runs"), partitions=2).toPandas().sort_values("id")
            assert [None if math.isnan(score) else score for score in judged["length"]] == expected
            assert list(judged["unscored"])[3] == "no_response"
    finally:
        spark.stop()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["0", "1"]
