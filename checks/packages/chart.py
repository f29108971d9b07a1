"""The Helm chart: the files in it that are generated, and the chart as a package.

python3 -m checks.packages.chart generate          writes the schema of the values and the copy of the alert rules
python3 -m checks.packages.chart pack FOLDER       writes kvtier-VERSION.tgz into the folder; the same input gives the same bytes
"""

import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.documents import version
from checks.documents.problem import Problem
from checks.packages import publisher
from checks.shared.checkout import ROOT

CHART = ROOT / "packaging/helm/kvtier"
MANIFESTS = ROOT / "packaging/kubernetes/kvtier.yaml"
CONFIGURATION = ROOT / "config/kvtier.yaml"
RULES = ROOT / "config/prometheus/kvtier.rules.yml"
KEY = re.compile(r"( *)([a-z0-9_]+):(?: (.*))?")
SIZE = r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|TiB)$"
DURATION = r"^[0-9]+(\.[0-9]+)?(ns|us|ms|s|min|h)$"

Schema = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """A key of kvtier.yaml."""

    name: str
    value: str
    comment: str


def settings(text: str) -> Iterator[Setting]:
    """Every key of kvtier.yaml with its default and the comment above it; sections are not listed."""
    sections: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            comment = []
        elif line.strip().startswith("#"):
            comment.append(line.strip()[1:].strip())
        else:
            found = KEY.fullmatch(line)
            if found is None:
                raise ValueError(f"this line of kvtier.yaml is no key: '{line}'")
            del sections[len(found[1]) // 2 :]
            if found[3] is None:
                sections.append(found[2])
            else:
                yield Setting(".".join([*sections, found[2]]), found[3], " ".join(comment))
            comment = []


def section(properties: Schema, comment: str = "") -> Schema:
    described = {"description": comment} if comment else {}
    return {"type": "object", "additionalProperties": False, **described, "properties": properties}


TENANT = section({
    "name": {"type": "string"}, "users": {"type": "array"}, "groups": {"type": "array"},
    "host_bytes": {"type": "string", "pattern": SIZE}, "ssd_bytes": {"type": "string", "pattern": SIZE}, "weight": {"type": "integer", "minimum": 1},
})  # fmt: skip


def schema_of(setting: Setting) -> Schema:
    """The schema of a key, derived from its default value. The daemon itself checks more."""
    value = setting.value
    if setting.name == "tenants":
        kind: Schema = {"type": "array", "items": TENANT}
    elif value.startswith("["):
        kind = {"type": "array"}
    elif value in ("true", "false"):
        kind = {"type": "boolean"}
    elif re.match(SIZE, value):
        kind = {"anyOf": [{"const": 0}, {"type": "string", "pattern": SIZE}]}
    elif re.match(DURATION, value):
        kind = {"anyOf": [{"const": 0}, {"type": "string", "pattern": DURATION}]}
    elif value == "0":
        # The default 0 does not tell a size, a duration, a count or a share apart.
        kind = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"{SIZE}|{DURATION}"}]}
    elif re.fullmatch(r"[0-9]+", value):
        kind = {"type": "integer", "minimum": 0}
    elif re.fullmatch(r"[0-9]+\.[0-9]+", value):
        kind = {"type": "number", "minimum": 0}
    elif value in ("auto", "off"):
        kind = {"type": ["string", "boolean", "integer"]}
    elif setting.name == "ssd.directory":
        kind = {"type": ["string", "array"]}
    else:
        kind = {"type": "string"}
    return {"description": setting.comment, **kind}


def configuration_schema(text: str) -> Schema:
    """The keys of kvtier.yaml; any other key is refused."""
    top = section({}, "The daemon's configuration: the keys of kvtier.yaml.")
    for one in settings(text):
        at = top
        *sections, name = one.name.split(".")
        for part in sections:
            at = at["properties"].setdefault(part, section({}))
        at["properties"][name] = schema_of(one)
    return top


TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {"type": "object"}
LIST: Schema = {"type": "array"}
COUNT: Schema = {"type": "integer", "minimum": 1}
PROBE = section({one: COUNT for one in ("initialDelaySeconds", "periodSeconds", "failureThreshold", "successThreshold", "timeoutSeconds")})
AMOUNT: Schema = {"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]}


def values_schema(configuration: str) -> Schema:
    """All values of the chart."""
    schema = section({
        "image": section({
            "repository": TEXT, "tag": TEXT, "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
        }),
        "imagePullSecrets": LIST,
        "config": configuration_schema(configuration),
        "restartOnConfigChange": FLAG,
        "paths": section({"socket": {"type": "string", "pattern": "^/"}, "cache": {"type": "string", "pattern": "^(/.*)?$"}}),
        "gpu": section({"enabled": FLAG, "runtimeClassName": TEXT, "devices": TEXT}),
        "secrets": section({"tls": TEXT, "clientCa": FLAG, "tokens": TEXT, "objectKey": TEXT}),
        "nodes": section({
            "enabled": FLAG, "port": COUNT, "memberPort": COUNT, "certificateName": TEXT, "token": section({"name": TEXT, "key": TEXT}),
        }),
        "env": LIST, "envFrom": LIST, "javaOptions": TEXT,
        "memory": section({"overhead": {"type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB|TiB)$"}}),
        "resources": section({"limits": ANY, "requests": ANY, "claims": LIST}),
        "serviceAccount": section({"create": FLAG, "name": TEXT, "annotations": ANY}),
        "podAnnotations": ANY, "podLabels": ANY, "nodeSelector": ANY, "affinity": ANY, "tolerations": LIST,
        "priorityClass": section({"create": FLAG, "name": TEXT, "value": {"type": "integer"}}),
        "updateStrategy": ANY,
        "terminationGracePeriodSeconds": COUNT,
        "lifecycle": section({"handOverSeconds": {"type": "integer", "minimum": 0}}),
        "securityContext": ANY,
        "probes": section({"startup": PROBE, "liveness": PROBE, "readiness": PROBE}),
        "service": section({"annotations": ANY}),
        "serviceMonitor": section({"enabled": FLAG, "interval": TEXT, "labels": ANY, "tokenSecret": section({"name": TEXT, "key": TEXT})}),
        "prometheusRule": section({"enabled": FLAG, "labels": ANY}),
        "networkPolicy": section({"enabled": FLAG, "grpcFrom": LIST, "metricsFrom": LIST, "egress": LIST}),
        "podDisruptionBudget": section({"enabled": FLAG, "maxUnavailable": AMOUNT}),
        # Helm's own.
        "global": ANY,
    })  # fmt: skip
    # The chart computes the memory of the pod from it, in whole units.
    schema["properties"]["config"]["properties"]["host"]["properties"]["bytes"]["anyOf"] = [{"type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB|TiB)$"}]
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart kvtier", **schema}


def generated() -> dict[Path, str]:
    """The generated files of the chart, and what each must be."""
    return {
        CHART / "values.schema.json": json.dumps(values_schema(CONFIGURATION.read_text(encoding="utf-8")), indent=1) + "\n",
        CHART / "files/kvtier.rules.yml": RULES.read_text(encoding="utf-8"),
    }


def check() -> list[Problem]:
    """Every generated file is as the configuration and the alert rules have it, and the plain manifests are of this chart."""
    stale = [file for file, text in generated().items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    problems = [Problem(str(file.relative_to(ROOT)), 1, "stale: run scripts/generate") for file in stale]
    if f"\n# Chart: {sources_digest()}\n" not in MANIFESTS.read_text(encoding="utf-8"):
        problems.append(Problem(str(MANIFESTS.relative_to(ROOT)), 1, "stale: run scripts/chart-check --write"))
    return problems


def sources_digest() -> str:
    """The digest of the chart's templates and default values. The plain manifests name the digest of the chart that they come from."""
    sums = hashlib.sha256()
    for file in (CHART / "values.yaml", *sorted((CHART / "templates").iterdir())):
        sums.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return sums.hexdigest()


def pack(folder: Path, number: str, image: str, epoch: int) -> Path:
    """The chart as Helm packs it, with the name of the published image as its default."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(one for one in CHART.rglob("*") if one.is_file()):
            content = file.read_bytes()
            if file == CHART / "values.yaml" and image:
                content = content.replace(b'  repository: ""', f"  repository: {image}".encode(), 1)
            info = tarfile.TarInfo(f"kvtier/{file.relative_to(CHART).as_posix()}")
            info.size, info.mtime, info.mode = len(content), epoch, 0o644
            archive.addfile(info, io.BytesIO(content))
    made = folder / f"kvtier-{number}.tgz"
    made.write_bytes(gzip.compress(out.getvalue(), compresslevel=9, mtime=0))
    return made


def main() -> int:
    words = sys.argv[1:]
    if words == ["generate"]:
        for file, text in generated().items():
            file.write_text(text, encoding="utf-8")
        return 0
    if len(words) == 2 and words[0] == "pack":
        print(pack(Path(words[1]), version.version(), publisher.read()["image.name"], int(os.environ["SOURCE_DATE_EPOCH"])))
        return 0
    print("chart: expected 'generate' or 'pack FOLDER'", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
