"""The chart and the real `helm`, for tests: render, install, upgrade, uninstall on a plane of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import REPOSITORY, ControlPlane, find_assets
from planeprocesses import GARBAGE

OTHER_CHART = "FAIRLEAD_TEST_CHART"
"""Environment variable with the folder of another chart than the repository's: one without a guard."""
CHART = Path(os.environ.get(OTHER_CHART, REPOSITORY / "charts" / "fairlead"))
NAMESPACE = "fairlead-system"
BUILD = REPOSITORY / "hack" / "kubernetes" / "build"
API_VERSIONS = [
    word
    for kind in (
        "fairlead.dev/v1alpha1/McpServer",
        "gateway.networking.k8s.io/v1/BackendTLSPolicy",
        "gateway.networking.k8s.io/v1/HTTPRoute",
        "monitoring.coreos.com/v1/PodMonitor",
        "monitoring.coreos.com/v1/PrometheusRule",
        "monitoring.coreos.com/v1/ServiceMonitor",
    )
    for word in ("--api-versions", kind)
]
"""Options of `helm template` for all kinds of which the chart checks whether the cluster has them."""

Object = dict[str, Any]


def program(name: str) -> Path:
    """Path of `helm` or `kubeconform`, from PATH or the folder of the API server. If it is missing, skips the test, or
    fails it in CI.
    """
    if location := shutil.which(name):
        return Path(location)
    if (path := find_assets() / name).exists():
        return path
    reason = f"{name} is not there: `hack/kubernetes/build {name}` compiles it, with Go 1.26 or newer"
    if os.environ.get("CI"):
        pytest.fail(f"in CI a missing {name} is a failure: {reason}")
    pytest.skip(reason)


class Refused(Exception):
    """helm failed. The message is its standard error."""


@dataclass(frozen=True)
class Helm:
    """`helm`, with a home of its own. Without a plane it can only lint and render."""

    home: Path
    plane: ControlPlane | None = None

    def __call__(self, *words: str | Path, seconds: float = 120) -> str:
        """Run helm, and return its standard output. Raises Refused."""
        environment = {**GARBAGE, "PATH": os.environ["PATH"], "HOME": str(self.home)}
        if self.plane is not None:
            environment["KUBECONFIG"] = str(self.plane.kubeconfig)
        command = [str(program("helm")), *map(str, words)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def template(self, *words: str | Path, chart: Path = CHART) -> list[Object]:
        """The objects of a release called fairlead. Raises Refused."""
        return objects(self("template", "fairlead", chart, "--namespace", NAMESPACE, *words))

    def install(self, *words: str | Path, chart: Path = CHART) -> str:
        """Install a release called fairlead, without waiting for pods: nothing runs them. Raises Refused."""
        where = ("--namespace", NAMESPACE, "--create-namespace")
        return self("install", "fairlead", chart, *where, *words)

    def upgrade(self, *words: str | Path, chart: Path = CHART) -> str:
        """Upgrade the release. Raises Refused."""
        return self("upgrade", "fairlead", chart, "--namespace", NAMESPACE, *words)

    def uninstall(self, *words: str) -> str:
        """Uninstall the release. Raises Refused."""
        return self("uninstall", "fairlead", "--namespace", NAMESPACE, *words)


def objects(text: str) -> list[Object]:
    """The objects of a stream of YAML documents."""
    # The loader in Python takes ten times as long, which was most of what a rendering cost.
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def manifests(items: Iterable[Object]) -> str:
    """YAML of objects, a document each, as `kubectl apply` takes it."""
    return str(yaml.dump_all(items, Dumper=yaml.CSafeDumper))


def of_kind(rendered: Iterable[Object], kind: str) -> list[Object]:
    return [item for item in rendered if item["kind"] == kind]


def rendered_object(rendered: Sequence[Object], kind: str, name: str) -> Object:
    """The only object of this kind and name."""
    (match,) = [item for item in rendered if item["kind"] == kind and item["metadata"]["name"] == name]
    return match


def container(rendered: Sequence[Object], component: str, release: str = "fairlead") -> Object:
    """The container of `operator` or `gateway`."""
    deployment = rendered_object(rendered, "Deployment", f"{release}-{component}")
    (match,) = [c for c in deployment["spec"]["template"]["spec"]["containers"] if c["name"] == component]
    return dict(match)


def environment(rendered: Sequence[Object], component: str, release: str = "fairlead") -> dict[str, Any]:
    """Environment of a container: maps each variable to its value, or to the source of its value."""
    variables = container(rendered, component, release)["env"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in variables}


def grants(role: Object) -> set[tuple[str, str, str]]:
    """Group, resource and verb of everything that a role allows."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def get(plane: ControlPlane, *words: str) -> list[Object]:
    """Objects that `kubectl get` lists."""
    return list(json.loads(plane.kubectl("get", *words, "-o", "json").stdout)["items"])
