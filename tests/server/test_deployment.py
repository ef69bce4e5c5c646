"""The files for operators: what they name is there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from refine.server.building import service_of
from refine.server.config import ServerSettings, load_settings, unknown_variables
from refine.server.metrics import Metrics
from tests.snippets import ROOT


def manifests() -> dict[str, dict[str, Any]]:
    """Read the Kubernetes manifest, by kind."""
    text = (ROOT / "docs/deploy/kubernetes.yaml").read_text(encoding="utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_the_dashboard_shows_metrics_that_exist() -> None:
    """Every metric that the dashboard asks for is one of the guard's, and so is each of its labels."""
    board = json.loads((ROOT / "docs/deploy/grafana.json").read_text(encoding="utf-8"))
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    known = {family.name: family for family in Metrics().registry.collect()}
    names = set(re.findall(r"refine_\w+", asked))
    assert len(names) >= 10
    assert {name for name in names if re.sub(r"_(total|bucket)$", "", name) not in known} == set()


def test_the_manifest_fits_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration in it can be used, the probes are its paths, and it has the time that it drains for."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    kinds = manifests()
    file = tmp_path / "refine.toml"
    file.write_text(kinds["ConfigMap"]["data"]["refine.toml"], encoding="utf-8")
    settings = load_settings(file, {})
    assert next(iter(service_of(settings).guards)).judge.name == "helpfulness"
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > settings.ready_s + settings.drain_s
    container = pod["containers"][0]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    metrics = kinds["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert metrics[0]["pods"]["metric"]["name"] in {family.name for family in Metrics().registry.collect()}


def test_the_composition_sets_known_settings() -> None:
    """Each variable of compose.yaml that looks like a setting is one, and the guard has time to drain."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    guard = services["guard"]
    assert unknown_variables(guard["environment"]) == []
    defaults = ServerSettings.model_fields
    assert int(guard["stop_grace_period"].rstrip("s")) > defaults["ready_s"].default + defaults["drain_s"].default


def test_the_image_installs_extras_that_exist() -> None:
    """The extras in the Dockerfile are those of the package, and what it copies is there."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"\[([\w,]+)\]\"", text)
    assert set(extras.split(",")) - project["optional-dependencies"].keys() == set()
    copied = [word for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
