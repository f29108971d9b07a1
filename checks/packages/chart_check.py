"""Lints and renders the Helm chart, and checks the result against Kubernetes' schemas, the daemon, and the chart's promises.

python3 -m checks.packages.chart_check --helm FILE [--write]

scripts/chart-check starts it with Helm and with kubernetes-validate, which has the schemas of Kubernetes inside.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from checks.documents import version
from checks.packages import chart
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments

EXAMPLES = ROOT / "packaging/helm/examples"
COMPOSE = ROOT / "packaging/compose.yaml"
KUBERNETES = ("1.28", "1.34")
"""The versions whose schemas are applied: an old one and a new one."""

RENDERED_FOR = "1.34.0"
# Kinds of the Prometheus operator, which Kubernetes' own schemas lack.
FOREIGN = {"ServiceMonitor", "PrometheusRule"}
PLAIN = ("kvtier", "image.repository=kvtier")

# Settings that the chart must refuse, each with a word of the message.
REFUSED = {
    "config.host.byts=1GiB": "byts",
    "config.hots.bytes=1GiB": "hots",
    "config.host.bytes=1GB": "config.host.bytes",
    "config.ssd.scrub_bytes_per_second=8MB": "scrub_bytes_per_second",
    "config.log.level.x=1": "config.log.level",
    "imagee.repository=x": "imagee",
    "networkPolicy.enable=true": "enable",
    "config.http.host=0.0.0.0": "secrets.tls",
    "serviceMonitor.enabled=true": "config.http.host",
    "nodes.enabled=true": "secrets.tls",
    "nodes.enabled=true,secrets.tls=x": "nodes.token.name",
    "lifecycle.handOverSeconds=60": "nodes.enabled",
    "lifecycle.handOverSeconds=-1": "handOverSeconds",
    "image.repository=": "image.repository is empty",
}


class Failure(Exception):
    """A result that is not the expected one."""


class Helm:
    """The program helm."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(self.program), *words], capture_output=True, text=True)

    def render(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("template", name, str(chart.CHART), "--namespace", "kvtier", "--kube-version", RENDERED_FOR, *words)


def step(what: str) -> None:
    print(f"chart-check: {what}", flush=True)


def expect(holds: bool, words: str) -> None:
    if not holds:
        raise Failure(words)


def objects(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one]


def validated(found: Sequence[dict[str, Any]]) -> int:
    """Holds objects to the schemas of Kubernetes; returns the number of objects that the schemas know."""
    count = 0
    for one in found:
        if one["kind"] in FOREIGN:
            continue
        for release in KUBERNETES:
            try:
                kubernetes_validate.validate(one, release, strict=True)
            except kubernetes_validate.ValidationError as error:
                raise Failure(f"{one['kind']} {one['metadata']['name']}, Kubernetes {release}: {error.message} at {list(error.path)}") from None
        count += 1
    return count


def of_kind(found: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    matching = [one for one in found if one["kind"] == kind]
    expect(len(matching) == 1, f"there are {len(matching)} objects of kind {kind}, expected one")
    return matching[0]


def judge_pod(found: Sequence[dict[str, Any]]) -> None:
    """Checks the daemon's pod for properties that any values must keep."""
    pod = of_kind(found, "DaemonSet")["spec"]["template"]["spec"]
    for name in ("hostIPC", "hostPID", "hostNetwork"):
        expect(pod[name] is False, f"{name} is {pod[name]}")
    (daemon,) = pod["containers"]
    security = daemon["securityContext"]
    expect(security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and security["capabilities"] == {"drop": ["ALL"]}, f"securityContext is {security}")
    expect("nvidia.com/gpu" not in str(daemon["resources"]), "the daemon allocates a GPU")
    mounted = {one["name"] for container in [*pod["initContainers"], daemon] for one in container["volumeMounts"]}
    expect({one["name"] for one in pod["volumes"]} == mounted, f"volumes and mounts differ: {mounted}")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        expect(len({"exec", "httpGet"} & set(daemon[probe])) == 1, f"{probe} is {daemon[probe]}")


def settings_of(daemon: dict[str, Any]) -> dict[str, str]:
    """The settings in the environment of the daemon's container, as they are in some pod."""
    return {
        one["name"]: one["value"].replace("$(POD_ADDRESS)", "10.1.2.3") if "value" in one else "node-1"
        for one in daemon["env"]
        if one["name"].startswith("KVTIERD_NODES_")
    }


def judge_configuration(found: Sequence[dict[str, Any]]) -> None:
    """Has the daemon check the configuration, without the checks of this machine."""
    environment = settings_of(of_kind(found, "DaemonSet")["spec"]["template"]["spec"]["containers"][0])
    text = of_kind(found, "ConfigMap")["data"]["kvtier.yaml"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([str(ROOT / "scripts/kvtier"), "config", "check", "--elsewhere", file.name], capture_output=True, text=True, env=os.environ | environment)
    expect(done.returncode == 0, f"the daemon refuses the configuration:\n{text}\n{done.stdout}{done.stderr}")


def judge_hand_over(found: Sequence[dict[str, Any]]) -> None:
    """Checks that a pod has the time to hand its blocks over, and then to stop."""
    pod = of_kind(found, "DaemonSet")["spec"]["template"]["spec"]
    command = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    expect(command == ["kvtier", "drain", "--to-nodes", "--yes", "--deadline", "120"], f"the hook before the stop is {command}")
    expect(pod["terminationGracePeriodSeconds"] == 180, f"terminationGracePeriodSeconds is {pod['terminationGracePeriodSeconds']}, expected 60 and 120")


def judge_monitoring(found: Sequence[dict[str, Any]]) -> None:
    monitor = of_kind(found, "ServiceMonitor")
    service = of_kind(found, "Service")
    (endpoint,) = monitor["spec"]["endpoints"]
    expect(endpoint["port"] in {one["name"] for one in service["spec"]["ports"]}, f"the Service has no port {endpoint['port']}")
    expect(endpoint["authorization"]["credentials"]["name"] == "kvtier-scrape", "Prometheus has no token")
    expect(monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items(), "the ServiceMonitor selects another Service")
    rules = of_kind(found, "PrometheusRule")["spec"]
    expect(rules == yaml.safe_load(chart.RULES.read_text()), "the rules are others than those of config/prometheus")
    daemon = of_kind(found, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    expect(daemon["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http", "scheme": "HTTPS"}, f"the probe is {daemon['livenessProbe']}")


def judge_compose(text: str) -> None:
    services = yaml.safe_load(text)["services"]
    for name, one in services.items():
        expect(not {"ipc", "pid", "network_mode", "privileged"} & set(one), f"{name} shares a namespace of the machine")
    shared = {volume.split(":")[0] for volume in services["kvtier"]["volumes"]} & {volume.split(":")[0] for volume in services["vllm"]["volumes"]}
    expect(shared == {"run"}, f"kvtier and vllm share {shared}, expected the folder of the socket alone")
    expect("depends_on" not in services["vllm"], "the engine waits for the daemon")


def examples(helm: Helm) -> None:
    files = sorted(EXAMPLES.glob("*.yaml"))
    for file in files:
        linted = helm.run("lint", str(chart.CHART), "--strict", "--values", str(file), "--kube-version", RENDERED_FOR)
        expect(linted.returncode == 0, f"helm lint, {file.name}: {linted.stdout}{linted.stderr}")
        done = helm.render("kvtier", "--values", str(file))
        expect(done.returncode == 0, f"helm template, {file.name}: {done.stderr}")
        found = objects(done.stdout)
        count = validated(found)
        judge_pod(found)
        judge_configuration(found)
        if file.name == "monitored.yaml":
            judge_monitoring(found)
        if file.name == "cluster.yaml":
            judge_hand_over(found)
        step(f"{file.name}: {count} objects are right for Kubernetes {' and '.join(KUBERNETES)}, and the daemon takes the configuration")
    expect(len(files) >= 5, f"there are {len(files)} value files, expected five and more")


def refusals(helm: Helm) -> None:
    for setting, word in REFUSED.items():
        done = helm.render("kvtier", "--set", "image.repository=x", "--set", setting)
        expect(done.returncode != 0, f"'{setting}' is taken")
        expect(word in done.stderr, f"'{setting}' is refused without the word '{word}': {done.stderr}")
    step(f"{len(REFUSED)} mistaken values are refused by name")


def head() -> str:
    return (
        "# The plain manifests of kvtier: what the Helm chart makes of its defaults. 'scripts/chart-check --write' writes this file.\n"
        "# kubectl create namespace kvtier, put your image in place of 'kvtier:VERSION', and apply this with -n kvtier. The socket of each node is in /run/kvtier.\n"
        f"# Chart: {chart.sources_digest()}\n"
    )


def manifests(helm: Helm, write: bool) -> None:
    name, image = PLAIN
    done = helm.render(name, "--set", image)
    expect(done.returncode == 0, f"helm template: {done.stderr}")
    text = head() + done.stdout.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
    if write:
        chart.MANIFESTS.write_text(text, encoding="utf-8")
    expect(chart.MANIFESTS.read_text(encoding="utf-8") == text, f"{chart.MANIFESTS.name} is stale: run scripts/chart-check --write")
    count = validated(objects(text)) + validated(objects((chart.MANIFESTS.parent / "vllm.yaml").read_text(encoding="utf-8")))
    step(f"{count} objects of packaging/kubernetes are right")


def packed(helm: Helm) -> None:
    """Helm takes the package that scripts/package makes, and its default image is the published one."""
    with tempfile.TemporaryDirectory() as folder:
        made = chart.pack(Path(folder), version.version(), "registry.example/kvtier", 1767225600)
        first = made.read_bytes()
        expect(chart.pack(Path(folder), version.version(), "registry.example/kvtier", 1767225600).read_bytes() == first, "two packages differ")
        done = helm.run("template", "kvtier", str(made), "--kube-version", RENDERED_FOR)
        expect(done.returncode == 0 and "image: registry.example/kvtier:" in done.stdout, f"the packed chart: {done.stderr}")
    step("the packed chart is taken")


def main() -> int:
    parser = Arguments(prog="checks.packages.chart_check", description="Checks the Helm chart.")
    parser.add_argument("--helm", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="write packaging/kubernetes/kvtier.yaml")
    arguments = parser.parse_args()
    helm = Helm(arguments.helm)
    try:
        for file, text in chart.generated().items():
            expect(file.read_text(encoding="utf-8") == text, f"{file.name} is stale: run scripts/generate")
        refusals(helm)
        examples(helm)
        manifests(helm, arguments.write)
        packed(helm)
        judge_compose(COMPOSE.read_text(encoding="utf-8"))
    except Failure as failure:
        print(f"kvtier: error: {failure}", file=sys.stderr)
        return 1
    print("chart-check: all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
