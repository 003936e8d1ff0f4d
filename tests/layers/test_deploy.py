"""The files in deploy/: they parse, agree with each other, and name what there is."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.services import UNPACKED

from minuet.cli.arguments import build_parser
from minuet.settings.table import TABLE

#: In the environment of our containers, and no settings of ours.
OTHERS = {"PYTHONPATH"}

KINDS = {"Deployment": "apps/v1", "Service": "v1", "PodDisruptionBudget": "policy/v1"}


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text("utf-8"))


@pytest.fixture
def manifests(root: Path) -> list[dict[str, Any]]:
    """The objects for Kubernetes."""
    files = sorted((root / "deploy" / "kubernetes").glob("*.yaml"))
    return [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in manifests if one["kind"] == kind]


def containers(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        container
        for one in of_kind(manifests, "Deployment")
        for container in one["spec"]["template"]["spec"]["containers"]
    ]


def test_every_command_is_one_that_there_is(root: Path, manifests: list[dict[str, Any]]) -> None:
    services = read(root / "deploy" / "compose.yaml")["services"].values()
    commands = [one["command"] for one in services if one["image"] == "minuet"]
    commands += [container["args"] for container in containers(manifests)]
    text = (root / "deploy" / "Containerfile").read_text("utf-8")
    commands += [yaml.safe_load(found) for found in re.findall(r"^CMD (\[.+\])$", text, re.M)]
    parser = build_parser()

    assert {command[0] for command in commands} == {"server", "worker"}
    for command in commands:
        parser.parse_args(command)


def test_every_setting_is_one_that_there_is(root: Path, manifests: list[dict[str, Any]]) -> None:
    services = read(root / "deploy" / "compose.yaml")["services"].values()
    found = {name for one in services if one["image"] == "minuet" for name in one["environment"]}
    found |= {one["name"] for made in containers(manifests) for one in made.get("env", [])}
    text = (root / "deploy" / "Containerfile").read_text("utf-8")
    found |= {
        name
        for line in re.findall(r"^ENV (.+)$", text, re.M)
        for name in re.findall(r"(MINUET_\w+)=", line)
    }

    assert found - OTHERS <= {setting.name for setting in TABLE}


def test_the_image_is_made_of_files_that_there_are_and_runs_as_nobody_special(root: Path) -> None:
    text = (root / "deploy" / "Containerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M)
    extras = re.search(r"/src\[(.+)\]", text)
    package = (root / "pyproject.toml").read_text("utf-8")

    for name in itertools.chain.from_iterable(one.split() for one in copied):
        assert (root / name).exists(), name
    assert extras is not None
    for extra in extras[1].split(","):
        assert re.search(rf"^{extra} = \[", package, re.M), extra
    assert re.findall(r"^USER (.+)$", text, re.M)[-1] == "10001"
    assert all(":" in image for image in re.findall(r"^FROM (\S+)", text, re.M))


def test_the_objects_for_kubernetes_belong_together(manifests: list[dict[str, Any]]) -> None:
    for one in manifests:
        assert one["apiVersion"] == KINDS[one["kind"]]
        assert re.fullmatch(r"[a-z0-9-]{1,63}", one["metadata"]["name"])
    labels = {}
    for one in of_kind(manifests, "Deployment"):
        spec = one["spec"]
        labels[one["metadata"]["name"]] = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        assert spec["replicas"] >= 2
    budgets = of_kind(manifests, "PodDisruptionBudget")
    assert {one["metadata"]["name"] for one in budgets} == labels.keys()
    for one in budgets:
        assert one["spec"]["selector"]["matchLabels"] == labels[one["metadata"]["name"]]
    (service,) = of_kind(manifests, "Service")
    assert service["spec"]["selector"] == labels["minuet-server"]


def test_containers_are_probed_limited_and_may_do_little(manifests: list[dict[str, Any]]) -> None:
    for one in of_kind(manifests, "Deployment"):
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        (made,) = pod["containers"]
        assert made["securityContext"]["readOnlyRootFilesystem"]
        assert made["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert made["resources"]["limits"]["memory"]
        ports = {port["name"]: port["containerPort"] for port in made["ports"]}
        scraped = one["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
        assert int(scraped) in ports.values()
        probes = [made[name]["httpGet"] for name in made if name.endswith("Probe")]
        assert probes
        for probe in probes:
            assert probe["port"] in ports
            assert probe["path"] in ("/health/live", "/health/ready", "/metrics")
    server = containers(of_kind(manifests, "Deployment"))[0]
    assert server["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert server["livenessProbe"]["httpGet"]["path"] == "/health/live"
    settings = {setting.name: setting.default for setting in TABLE}
    drain = settings["WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"]
    (worker,) = [
        one["spec"]["template"]["spec"]
        for one in of_kind(manifests, "Deployment")
        if one["metadata"]["name"] == "minuet-worker"
    ]
    assert worker["terminationGracePeriodSeconds"] > drain


def test_what_is_composed_is_there(root: Path) -> None:
    folder = root / "deploy"
    composed = read(folder / "compose.yaml")
    services = composed["services"]
    for name, one in services.items():
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (folder / source).exists(), source
            elif not source.startswith("$"):
                assert source in composed["volumes"]
        for needed, how in one.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[needed]
        # Only this machine reaches them: what is in front of them is yours.
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", [])), name
        assert ":" in one["image"] or one["image"] == "minuet"
    scraped = read(folder / "prometheus.yaml")["scrape_configs"]
    targets = [target for one in scraped[0]["static_configs"] for target in one["targets"]]
    assert {target.split(":")[0] for target in targets} == {"server-1", "server-2"}
    assert [one["names"] for one in scraped[1]["dns_sd_configs"]] == [["worker"]]
    promtool = shutil.which("promtool") or shutil.which("promtool", path=UNPACKED / "usr" / "bin")
    if promtool is not None:
        command = [promtool, "check", "config", "--syntax-only", str(folder / "prometheus.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
