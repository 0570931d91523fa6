"""Step of a release that installs the published chart by digest on a cluster, if this machine can run one."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Final

from helmschemas import write_schemas
from releasing import chart
from releasing.faults import Fault
from releasing.registry import CHARTS, Registry, registry
from releasing.versions import Version
from releasing.workplace import ROOT, Workplace, helm

RELEASE: Final = "release-check"
NAMESPACE: Final = "fairlead-release-check"
CRD: Final = "crd/mcpservers.fairlead.dev"
PODS: Final = f"app.kubernetes.io/instance={RELEASE}"


def cluster(workplace: Workplace, version: Version) -> list[str]:
    """Lint and render the chart from the registry by digest, validate it, and install it. Raises Fault."""
    source = workplace.folder("chart-lint", empty=True)
    with tarfile.open(workplace.artefact("chart", f"fairlead-{version.chart}.tgz")) as tar:
        tar.extractall(source, filter="data")
    workplace.run(helm(workplace), "lint", "--strict", source / "fairlead")
    with registry(workplace) as served:
        image = served.reference("fairlead", version.chart)
        listener = served.reference("fairlead-listener", version.chart)
        packed = f"oci://{served.reference(f'{CHARTS}/fairlead', version.chart)}"
        words = [packed, "--plain-http", *values(image, listener)]
        rendered = workplace.run(helm(workplace), "template", RELEASE, *words, "--namespace", NAMESPACE)
        if f"image: {image}" not in rendered or chart.LOCAL in rendered:
            raise Fault("the rendered chart does not take its images from the registry, by digest")
        manifests = workplace.folder("log") / "rendered.yaml"
        manifests.write_text(rendered)
        lines = [f"lint, template from {packed}: {rendered.count(chr(10) + 'kind: ')} objects"]
        possible = workplace.attempt(ROOT / "hack/e2e", "--possible")
        if possible.returncode:
            return [*lines, f"neither validated nor installed: {possible.stderr.strip()}"]
        kubeconfig = os.environ.get("KUBECONFIG") or workplace.run(ROOT / "hack/cluster", "up").strip()
        kubectl: list[str | Path] = [helm(workplace, "kubectl"), "--kubeconfig", kubeconfig]
        lines.append(f"kubeconform: {validate(workplace, kubectl, manifests)}")
        return [*lines, *installed(workplace, kubectl, served, words)]


def values(image: str, listener: str) -> list[str]:
    """Arguments of helm that select images by digest."""
    words = []
    for key, reference in (("image", image), ("servers.listenerImage", listener)):
        repository, _, digest = reference.partition("@")
        words += ["--set", f"{key}.repository={repository}", "--set", f"{key}.digest={digest}"]
    return words


def validate(workplace: Workplace, kubectl: list[str | Path], manifests: Path) -> str:
    """Validate with Kubeconform and the schemas of the cluster's API server. Raises Fault if objects are invalid."""
    document = json.loads(workplace.run(*kubectl, "get", "--raw", "/openapi/v2"))
    location = write_schemas(document, workplace.folder("schemas", empty=True))
    program = helm(workplace, "kubeconform")
    words = ["-strict", "-summary", "-ignore-missing-schemas", "-schema-location", location]
    return workplace.run(program, *words, manifests).strip()


def installed(workplace: Workplace, kubectl: list[str | Path], served: Registry, words: list[str]) -> list[str]:
    """Install from the registry, check the version in a gateway's pod, and uninstall. Raises Fault."""
    kubeconfig = ["--kubeconfig", str(kubectl[-1]), "--namespace", NAMESPACE]
    there = workplace.attempt(*kubectl, "get", CRD).returncode == 0
    options = ["--create-namespace", "--wait", "--timeout", "300s", "--set", "gateway.settings.anonymous=allow"]
    # CRDs of another release on this cluster must neither be replaced nor removed
    options += ["--set", f"crds.install={'false' if there else 'true'}", "--set", "crds.keep=false"]
    try:
        workplace.run(helm(workplace), "install", RELEASE, *words, *options, *kubeconfig)
        pods = json.loads(workplace.run(*kubectl, "-n", NAMESPACE, "get", "pods", "-l", PODS, "-o", "json"))["items"]
        pulled = sorted({status["imageID"] for pod in pods for status in pod["status"]["containerStatuses"]})
        gateway = f"deployment/{RELEASE}-fairlead-gateway"
        version_line = workplace.run(*kubectl, "-n", NAMESPACE, "exec", gateway, "--", "fairlead", "version").strip()
    finally:
        done = workplace.attempt(helm(workplace), "uninstall", RELEASE, "--wait", *kubeconfig)
        workplace.attempt(*kubectl, "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
    if done.returncode:
        raise Fault(f"helm uninstall failed: {done.stderr.strip()}")
    if not all(served.address in image for image in pulled):
        raise Fault(f"pods run {', '.join(pulled)}, not what was pulled from {served.address}")
    return [f"installed by digest, pulled by the node from {served.address}: {len(pods)} pods, {version_line}"]
