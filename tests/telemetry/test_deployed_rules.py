"""The alert rules and the dashboard in deploy/: they are about metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tools.services import UNPACKED

from minuet.telemetry.metrics import HOP_BUCKETS, WorkerMetrics

from ..api.conftest import open_site

#: Names of our metrics in an expression.
NAME = re.compile(r"\b(?:workflow|minuet)_[a-z_]+\b(?!=)")

SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}

DOCUMENT = {
    "name": "shop",
    "nodes": [
        {"id": "one", "type": "noop"},
        {"id": "two", "type": "noop", "dependencies": ["one"]},
    ],
}


async def scrape() -> str:
    """What a server that has run something answers to Prometheus."""
    registry = CollectorRegistry()
    async with open_site(observer=WorkerMetrics(registry), registry=registry) as site:
        await site.app.run(DOCUMENT)
        answer = await site.client.get("/metrics")
        assert answer.status_code == 200
        return answer.text


def read_alerts(root: Path) -> list[dict[str, Any]]:
    read = yaml.safe_load((root / "deploy" / "alerts.yaml").read_text("utf-8"))
    return [rule for group in read["groups"] for rule in group["rules"]]


def read_queries(root: Path) -> list[str]:
    """The queries of the dashboard."""
    board = json.loads((root / "deploy" / "grafana.json").read_text("utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


@pytest.mark.shows("T-04", "T-06", "T-07", "S-43")
async def test_alerts_and_dashboard_name_metrics_that_there_are(root: Path) -> None:
    text = await scrape()
    families = {
        family.name: family
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")
    }
    there = {name + suffix for name, family in families.items() for suffix in SUFFIXES[family.type]}
    alerts, queries = [rule["expr"] for rule in read_alerts(root)], read_queries(root)

    assert set(NAME.findall(" ".join(alerts))) <= there
    shown = set(NAME.findall(" ".join(queries)))
    assert shown <= there
    # Nothing is counted that nobody sees.
    seen = {name.removesuffix("_bucket").removesuffix("_total") for name in shown}
    assert seen == set(families)
    assert {"workflow_counter_divergence", "workflow_counter_value", "workflow_dlq_size"} <= there
    samples = families["workflow_hop_latency_ms"].samples
    buckets = {one.labels["le"] for one in samples if one.name.endswith("_bucket")}
    assert buckets == {f"{float(bound)}" for bound in HOP_BUCKETS} | {"+Inf"}
    assert {10, 50, 100, 500, 1000, 5000} <= set(HOP_BUCKETS)
    labels = {label for one in families.values() for s in one.samples for label in s.labels}
    assert not labels & {"run_id", "run"}


@pytest.mark.shows("T-10", "T-11", "T-12")
def test_alerts_fire_when_they_should(root: Path, tmp_path: Path) -> None:
    rules = {rule["alert"]: rule for rule in read_alerts(root)}
    waits = {name: rules[name]["for"] for name in ("WorkflowStalled", "DLQSurge")}
    assert waits == {"WorkflowStalled": "10m", "DLQSurge": "2m"}
    assert rules["CounterDivergence"]["for"] == "1m"
    assert rules["CounterDivergence"]["expr"].endswith("> 5")
    assert "[5m]" in rules["DLQSurge"]["expr"]
    assert rules["DLQSurge"]["expr"].endswith("> 100")
    promtool = shutil.which("promtool") or shutil.which("promtool", path=UNPACKED / "usr" / "bin")
    if promtool is None:
        return
    played = (Path(__file__).parent / "alerts.test.yaml").read_text("utf-8")
    file = tmp_path / "alerts.test.yaml"
    file.write_text(played.replace("[ALERTS]", f"[{root / 'deploy' / 'alerts.yaml'}]"))
    queries = [
        {"record": f"q{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(read_queries(root))
    ]
    dashboard = tmp_path / "dashboard.yaml"
    dashboard.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": queries}]}))
    for command in (("check", "rules", dashboard), ("test", "rules", file)):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
