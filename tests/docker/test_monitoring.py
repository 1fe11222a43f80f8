"""Dashboard, alerts and scrape configuration, checked against what an application exports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from pystreams.metrics import DEFINITIONS
from pystreams.metrics.definitions import GROUP_TAGS, STATE_ID_SUFFIX, MetricDefinition, Unit
from pystreams.metrics.prometheus_names import prometheus_name

ROOT = Path(__file__).parent.parent.parent
MONITORING = ROOT / "docker" / "monitoring"
EXPORTED = {prometheus_name(definition): definition for definition in DEFINITIONS}
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "up"}
"""From prometheus_client, and from Prometheus itself."""
OF_THE_SCRAPE = {"application", "instance", "job"}
"""Labels that Prometheus gives to what it scrapes."""
UNITS = {Unit.BYTES: {"bytes"}, Unit.MILLISECONDS: {"s"}, Unit.NANOSECONDS: {"s"}}
PER_SECOND = {"cps", "ops"}
PLAIN = {"none", "short"}


def dashboard() -> dict[str, Any]:
    loaded = json.loads((MONITORING / "grafana" / "pystreams.json").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def alerts() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((MONITORING / "alerts.yaml").read_text("utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def queries() -> list[tuple[str, str]]:
    """Return all queries, each with where it stands."""
    shown = [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]
    return shown + [(alert["alert"], alert["expr"]) for alert in alerts()]


def parsed(query: str) -> Any:
    """Parse a query, Grafana's variables being filled in; fails if Prometheus would refuse it."""
    return promql_parser.parse(query.replace("$__rate_interval", "1m"))


def selected(query: str) -> list[tuple[str, set[str]]]:
    """Return the metrics that a query reads, each with the labels it chooses them by."""
    parsed(query)
    words = re.findall(r"\b([a-z_][a-z0-9_]*)(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', '""', query))
    return [
        (name, set(re.findall(r"(\w+)\s*[=!]", labels)))
        for name, labels in words
        if name in OF_THE_PROCESS or name.startswith(("pystreams_", "process_"))
    ]


def labels_of(definition: MetricDefinition) -> set[str]:
    tags = GROUP_TAGS[definition.group]
    names = {tag.replace("-", "_") for tag in tags if not tag.endswith(STATE_ID_SUFFIX)}
    return names | ({"store_type", "state_id"} if len(names) < len(tags) else set())


@pytest.mark.parametrize(("place", "query"), queries())
def test_a_query_reads_what_is_exported(place: str, query: str) -> None:
    read = selected(query)
    assert read, place
    for name, labels in read:
        assert name in OF_THE_PROCESS or name in EXPORTED
        known = labels_of(EXPORTED[name]) if name in EXPORTED else set()
        assert labels <= known | OF_THE_SCRAPE


@pytest.mark.parametrize(("place", "query"), queries())
def test_a_query_groups_by_labels_that_are_there(place: str, query: str) -> None:
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    labels = {label.strip() for group in grouped for label in group.split(",")}
    for name, _ in selected(query):
        known = labels_of(EXPORTED[name]) if name in EXPORTED else set()
        assert labels <= known | OF_THE_SCRAPE, place


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_s_unit_is_that_of_its_metrics(panel: dict[str, Any]) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        per_second = "rate(" in target["expr"]
        for name, _ in selected(target["expr"]):
            if name == "process_cpu_seconds_total":
                assert unit == "percentunit"
            elif per_second:
                assert unit in PER_SECOND
            elif name in EXPORTED:
                assert unit in UNITS.get(EXPORTED[name].unit, PLAIN)
            else:
                assert unit == name.rpartition("_")[2]


@pytest.mark.parametrize(("place", "query"), queries())
def test_counters_are_read_as_rates_and_nothing_else_is(place: str, query: str) -> None:
    counters = {name for name, _ in selected(query) if name.endswith("_total")}
    for name in {name for name, _ in selected(query)}:
        read_as_rate = re.search(rf"\b(?:rate|increase)\({name}\b", query) is not None
        assert read_as_rate is (name in counters), place


def test_dashboard_answers_what_is_asked_at_night() -> None:
    titles = {panel["title"] for panel in panels()}
    assert titles >= {
        "State",
        "Lag by task",
        "Processed by task",
        "Longest commit",
        "Uncommitted",
        "Left to restore",
        "Behind",
        "Partitions read by nobody",
    }
    assert all(panel["description"] for panel in panels())


def test_panels_have_room_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    identities = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(identities)) == len(identities)


def test_dashboard_reads_from_a_data_source_of_the_kind_that_is_provisioned() -> None:
    """All of it from the one that is chosen at the top, which is the default at first."""
    provisioned = yaml.safe_load((MONITORING / "grafana" / "datasources.yaml").read_text("utf-8"))
    (source,) = provisioned["datasources"]
    chosen, application = dashboard()["templating"]["list"]
    assert (chosen["type"], chosen["query"]) == ("datasource", source["type"])
    assert source["isDefault"]
    wanted = {"type": source["type"], "uid": f"${{{chosen['name']}}}"}
    assert application["datasource"] == wanted
    for panel in panels():
        assert panel["datasource"] == wanted
        assert all(target["datasource"] == wanted for target in panel["targets"])
    port = source["url"].removeprefix("http://prometheus")
    assert f"127.0.0.1{port}{port}" in compose()["services"]["prometheus"]["ports"]


def test_what_is_mounted_is_where_it_is_looked_for() -> None:
    services = compose()["services"]
    mounts = {
        target: MONITORING.parent / source
        for service in ("prometheus", "grafana")
        for source, target, _ in (mount.split(":") for mount in services[service]["volumes"])
    }
    assert all(path.is_file() for path in mounts.values())
    provider = yaml.safe_load((MONITORING / "grafana" / "dashboards.yaml").read_text("utf-8"))
    folder = provider["providers"][0]["options"]["path"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert mounts[home].name == "pystreams.json"
    assert Path(home).parent == Path(folder)
    scraping = yaml.safe_load((MONITORING / "prometheus.yaml").read_text("utf-8"))
    assert set(scraping["rule_files"]) <= set(mounts)


def test_prometheus_asks_the_application_where_it_listens_with_the_token_it_wants() -> None:
    scraping = yaml.safe_load((MONITORING / "prometheus.yaml").read_text("utf-8"))
    (job,) = scraping["scrape_configs"]
    services = compose()["services"]
    command = services["app"]["command"]
    token_file = command[command.index("--http-token-file") + 1]
    port = command[command.index("--http") + 1].rpartition(":")[2]
    assert job["authorization"]["credentials_file"] == token_file
    assert job["static_configs"][0]["targets"] == [f"app:{port}"]
    assert set(job["static_configs"][0]["labels"]) == {"application"}
    for service in ("app", "prometheus"):
        assert services[service]["configs"] == [{"source": "http-token", "target": token_file}]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_an_alert_says_how_bad_it_is_what_has_happened_and_what_to_do(
    alert: dict[str, Any],
) -> None:
    assert set(alert) <= {"alert", "expr", "for", "labels", "annotations"}
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description"}
    named = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", alert["expr"])
    left = grouped[0].split(",") if grouped else OF_THE_SCRAPE
    assert named <= {label.strip() for label in left}
