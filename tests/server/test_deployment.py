"""The files for operators name settings, paths, ports and metrics that the guard really has."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from refine.cli.app import app
from refine.server.config import RequestLimits, ServerSettings, load_settings, unknown_variables
from tests.guarding import guarding, wait_until
from tests.model_server import Reply, serving
from tests.snippets import ROOT

AFTER_DRAIN_S = 7
"""Seconds that a stop may take beyond `ready_s` and `drain_s`: to end connections, and to write the record."""
LABELS = {"le"}
"""Labels that Prometheus itself adds."""


def text_of(path: str) -> str:
    """Read a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def manifests() -> dict[str, dict[str, Any]]:
    """Read the Kubernetes manifest, by kind."""
    documents = list(yaml.safe_load_all(text_of("docs/deploy/kubernetes.yaml")))
    kinds = {document["kind"]: document for document in documents}
    assert len(kinds) == len(documents)
    return kinds


def instructions() -> list[tuple[str, str]]:
    """Read the Dockerfile as pairs of instruction and arguments."""
    lines = (line for line in text_of("Dockerfile").splitlines() if not line.startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def last(name: str) -> str:
    """Return the arguments of the last instruction of a name: the one that holds for the image."""
    return [rest for instruction, rest in instructions() if instruction == name][-1]


@cache
def exported() -> dict[str, set[str]]:
    """Return the labels of each series that `/metrics` exports after an answer of two attempts, by name."""
    replies = iter(["bad", "good"])
    policy = {"prices": {"m": {"input": 1.0, "output": 1.0}}}
    with serving(lambda _: Reply(next(replies))) as upstream, guarding(upstream.url, policy=policy) as guard:
        assert guard.chat().json()["refine"]["passed"]
        wait_until(lambda: "refine_requests_total{" in guard.get("/metrics").text)  # counted after it was sent
        text = guard.get("/metrics").text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples if not sample.name.endswith("_created")}


def names_in(query: str) -> set[str]:
    """Return the series that a query asks for, all of which are exported, with the labels that it names."""
    names = set(re.findall(r"refine_\w+", query))
    assert names, query
    assert names <= exported().keys(), query
    selected, grouped = re.findall(r"(\w+)[!=]~?\"", query), re.findall(r"by \(([^)]*)\)", query)
    labels = {*selected, *(label.strip() for group in grouped for label in group.split(","))}
    assert labels <= LABELS.union(*(exported()[name] for name in names)), query
    return names


def is_copied(path: str) -> bool:
    """Check whether the build sees a path: the last line of .dockerignore that matches decides."""
    seen = True
    for line in text_of(".dockerignore").split():
        if fnmatchcase(path, line.removeprefix("!")):
            seen = line.startswith("!")
    return seen


def test_the_dashboard_shows_what_is_exported() -> None:
    """Each panel asks for series and labels that `/metrics` has, no metric is missing, no panel hides another."""
    board = json.loads(text_of("docs/deploy/grafana.json"))
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries.append(variables["guard"]["query"])
    shown: set[str] = set()
    for query in queries:
        shown |= {re.sub("_(bucket|total)$", "", name) for name in names_in(query)}
        assert set(re.findall(r"\$(?!__)(\w+)", query)) <= variables.keys(), query
    assert shown == {re.sub("_(bucket|sum|count|total)$", "", name) for name in exported()}
    cells = [
        (column, row)
        for place in (panel["gridPos"] for panel in board["panels"])
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(column for column, _ in cells) < 24


def test_alerts_are_on_what_is_exported() -> None:
    """Each rule asks for series and labels that `/metrics` has, says what to do, and none is there twice."""
    (group,) = yaml.safe_load(text_of("docs/deploy/alerts.yaml"))["groups"]
    known = {re.sub("_bucket$", "", name) for name in exported()}
    for rule in group["rules"]:
        names_in(rule["expr"])
        told = set(re.findall(r"refine_\w+", rule["annotations"]["description"]))
        assert {re.sub("_bucket$", "", name) for name in told} <= known
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert {"summary", "description"} <= rule["annotations"].keys()
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])


def test_the_image() -> None:
    """It installs extras that exist from files that are there, runs as nobody special, and is checked rightly."""
    project = tomllib.loads(text_of("pyproject.toml"))
    extras = last("ARG").partition("=")[2].split(",")
    assert set(extras) - project["project"]["optional-dependencies"].keys() == set()
    copied = [word for name, rest in instructions() if name == "COPY" for word in rest.split()[:-1]]
    sources = [word for word in copied if not word.startswith(("--", "/"))]
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]) < set(sources)
    assert [path for path in sources if not (ROOT / path).exists() or not is_copied(path)] == []
    assert [path for path in (".git", ".env", "tests") if is_copied(path)] == []
    assert int(last("USER")) > 0
    assert last("STOPSIGNAL") == "SIGTERM"
    entry = json.loads(last("ENTRYPOINT"))
    assert entry[:4] == ["refine", "serve", "--host", "0.0.0.0"]  # noqa: S104 - inside a container
    port = dict(pairwise(entry))["--port"]
    assert last("EXPOSE") == port
    assert f"http://127.0.0.1:{port}/healthz" in json.loads(last("HEALTHCHECK").partition("CMD ")[2])[-1]
    included = {
        name.removeprefix("/") for name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    }
    assert {"Dockerfile", "compose.yaml", ".dockerignore"} <= included


def test_the_manifest_runs_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that it comes to is accepted with the configuration in it, in the environment that it sets."""
    kinds = manifests()
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    names = [variable["name"] for variable in container["env"]]
    assert unknown_variables(dict.fromkeys(names, "")) == []
    assert all("secretKeyRef" in variable["valueFrom"] for variable in container["env"])
    assert pod["enableServiceLinks"] is False, "the address of the service would be the setting REFINE_PORT"
    secrets = {
        "OPENAI_API_KEY": "sk-1",
        "REFINE_RECORD": "postgresql://u:p@db/refine",
        "REFINE_PAGE_KEY": "long enough",
    }
    assert secrets.keys() == set(names)
    for name, secret in secrets.items():
        monkeypatch.setenv(name, secret)
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert {volume["name"] for volume in pod["volumes"]} == mounts.keys()
    config = kinds["ConfigMap"]["data"]
    for name, content in config.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    args = [argument.replace(mounts["config"], str(tmp_path)) for argument in container["args"]]
    assert args != container["args"]
    command = [*json.loads(last("ENTRYPOINT")), *args, "--check"]
    result = CliRunner().invoke(app, command[1:])
    assert result.exit_code == 0, result.output
    assert "helpfulness" in result.output
    assert "refine: the configuration can be used" in result.output.splitlines()


def test_the_manifest_fits_the_guard(tmp_path: Path) -> None:
    """Probes, ports, grace and the autoscaler's metric are those of the guard, and labels meet their selectors."""
    kinds = manifests()
    deployment = kinds["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    container = pod["containers"][0]
    file = tmp_path / "refine.toml"
    file.write_text(kinds["ConfigMap"]["data"]["refine.toml"], encoding="utf-8")
    settings = load_settings(file, {})
    assert pod["terminationGracePeriodSeconds"] > settings.ready_s + settings.drain_s + AFTER_DRAIN_S
    assert settings.drain_s > settings.policy["deadline_s"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    readiness = container["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < settings.ready_s
    annotations = deployment["template"]["metadata"]["annotations"]
    ports = {container["ports"][0]["containerPort"], int(annotations["prometheus.io/port"]), int(last("EXPOSE"))}
    assert len(ports) == 1
    assert annotations["prometheus.io/path"] == "/metrics"
    assert kinds["Service"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    labels = deployment["template"]["metadata"]["labels"]
    budget = kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    assert labels == deployment["selector"]["matchLabels"] == budget == kinds["Service"]["spec"]["selector"]
    scaler = kinds["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == kinds["Deployment"]["metadata"]["name"]
    pods = scaler["metrics"][0]["pods"]
    assert pods["metric"]["name"] in exported()
    assert int(pods["target"]["averageValue"]) < settings.max_in_flight
    assert "replicas" not in deployment, "to apply the manifest would undo what the autoscaler did"
    assert pod["securityContext"]["runAsUser"] == int(last("USER"))


def test_the_running_guard_answers_the_probes() -> None:
    """The paths that probes and Prometheus ask are there on the real server."""
    container = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    with guarding("http://127.0.0.1:9/v1") as guard:
        for probe in ("startup", "readiness", "liveness"):
            assert guard.get(container[f"{probe}Probe"]["httpGet"]["path"]).status_code == 200
        guard.service.draining = True
        assert guard.get(container["readinessProbe"]["httpGet"]["path"]).status_code == 503
        assert guard.get(container["livenessProbe"]["httpGet"]["path"]).status_code == 200


def test_the_composition_fits_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables are settings that can be used, its database is the record's, and a stop has time to drain."""
    services = yaml.safe_load(text_of("compose.yaml"))["services"]
    guard, database = services["guard"], services["database"]
    environment = {
        name: re.sub(r"\$\{\w+(?::[-?]([^}]*))?\}", r"\1", text) for name, text in guard["environment"].items()
    }
    assert unknown_variables(environment) == []
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    assert re.fullmatch(rf"postgresql://{user}:[^@]+@database/{name}", environment["REFINE_RECORD"])
    for variable, text in environment.items():
        monkeypatch.setenv(variable, text)
    command = [*json.loads(last("ENTRYPOINT")), *guard.get("command", []), "--check"]
    result = CliRunner().invoke(app, command[1:])
    assert result.exit_code == 0, result.output
    defaults = ServerSettings.model_fields
    stop_s = defaults["ready_s"].default + defaults["drain_s"].default + AFTER_DRAIN_S
    assert int(guard["stop_grace_period"].rstrip("s")) > stop_s
    assert guard["ports"] == [f"127.0.0.1:8000:{last('EXPOSE')}"], "without keys, nobody else is let in"
    secrets = [
        variable
        for variable in (*guard["environment"], *database["environment"])
        if re.search("KEY|PASSW", variable)
    ]
    for variable in secrets:
        assert "${" in {**guard["environment"], **database["environment"]}[variable], "secrets come from outside"


def test_the_rule_of_the_adapter() -> None:
    """The rule in docs/scaling.md hands on the metric that the autoscaler of the manifest asks for."""
    (block,) = re.findall(r"```yaml\n(.*?)```", text_of("docs/scaling.md"), re.DOTALL)
    (rule,) = yaml.safe_load(block)["rules"]["custom"]
    scaler = manifests()["HorizontalPodAutoscaler"]["spec"]
    asked = scaler["metrics"][0]["pods"]["metric"]["name"]
    assert rule["seriesQuery"].partition("{")[0] == asked
    assert int(scaler["metrics"][0]["pods"]["target"]["averageValue"]) < RequestLimits().max_in_flight
