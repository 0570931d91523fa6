"""Checks whether a server with this spec can run on this platform; the first refusal decides. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.mcpserver.container import ResourceRequirements
from fairlead_api.v1alpha1.mcpserver.podtemplate import NOT_ALLOWED
from fairlead_api.v1alpha1.mcpserver.spec_rules import RESOURCES
from fairlead_operator.ports import ConditionVerdict, Environment
from fairlead_operator.server.kube_manifests import ManifestContext, pod_template
from fairlead_operator.server.secret_references import containers


@dataclass(frozen=True)
class PodTemplateChecker:
    """Decides in which namespaces servers may have an `unrestrictedPodTemplate`."""

    allows_everywhere: bool = False
    """Whether servers of all namespaces may have an `unrestrictedPodTemplate`."""
    allowing_namespaces: frozenset[str] = frozenset()
    """Namespaces in which servers may have an `unrestrictedPodTemplate` even if `allows_everywhere` is False."""

    def restricts(self, namespace: str) -> bool:
        """Whether servers of a namespace may only have a `podTemplate`."""
        return not self.allows_everywhere and namespace not in self.allowing_namespaces


RESTRICTED: Final = PodTemplateChecker()
Check = Callable[[McpServer, Environment], ConditionVerdict | None]

ACCEPTED: Final = ConditionVerdict(True, Cause.ACCEPTED, "the spec is valid and can run here")


def _refusal(message: str) -> ConditionVerdict:
    return ConditionVerdict(False, Cause.NOT_SUPPORTED_HERE, message)


def refuse_command_on_cluster(server: McpServer, environment: Environment) -> ConditionVerdict | None:
    """Refuse `command` on a cluster. A CEL rule does so at admission, but objects older than the rule may exist."""
    if environment == "cluster" and server.spec.source_kind == "command":
        return _refusal(
            "command runs a local child process, for `fairlead up` only: use image, package or url on a cluster"
        )
    return None


def refuse_image_off_cluster(server: McpServer, environment: Environment) -> ConditionVerdict | None:
    """Refuse `image` outside of a cluster, where nothing runs containers."""
    if environment == "local" and server.spec.source_kind == "image":
        return _refusal("image needs a cluster: use package, command or url with `fairlead up`")
    return None


def refuse_missing_command(server: McpServer, environment: Environment) -> ConditionVerdict | None:
    """Refuse a stdio image without `command`, because the program to start for each connection is unknown."""
    image = server.spec.image
    if image is not None and image.transport == "stdio" and not image.command:
        return _refusal("an image with transport stdio needs command: the program to start for each connection")
    return None


def refuse_pod_template(
    server: McpServer, environment: Environment, templates: PodTemplateChecker
) -> ConditionVerdict | None:
    """Refuse an `unrestrictedPodTemplate` in a namespace where it is not allowed; running pods are kept. Outside of a
    cluster, the template is ignored.
    """
    template = server.spec.unrestricted_pod_template
    if template is None or environment != "cluster" or not templates.restricts(server.metadata.namespace):
        return None
    message = f"{NOT_ALLOWED}; pods that already run keep running"
    return ConditionVerdict(False, Cause.POD_TEMPLATE_NOT_ALLOWED, message)


def check_pod_resources(server: McpServer, environment: Environment) -> ConditionVerdict | None:
    """Apply the CRD's rules for `spec.resources` to the containers of the pod template: a pod that violates them would
    not start. The CRD cannot do so itself, because the rules for all containers would exceed its CEL cost limit.
    """
    spec = server.spec
    if environment != "cluster" or (spec.pod_template is None and spec.unrestricted_pod_template is None):
        return None
    for container in containers(pod_template(server, ManifestContext("", restricted=False))):
        try:
            resources = ResourceRequirements.model_validate(container.get("resources") or {})
        except ValidationError:
            continue  # the API server refuses the Deployment with a message
        for rule in RESOURCES:
            if rule.holds is not None and not rule.holds(resources):
                subject = f"resources of the container {container.get('name')} in the pod template"
                return ConditionVerdict(False, Cause.INVALID, f"{subject}: {rule.message}")
    return None


CHECKS: Final[tuple[Check, ...]] = (
    refuse_command_on_cluster,
    refuse_image_off_cluster,
    refuse_missing_command,
    check_pod_resources,
)


def check(server: McpServer, environment: Environment, templates: PodTemplateChecker = RESTRICTED) -> ConditionVerdict:
    """The first refusal, else acceptance. A refused server is neither run nor discovered."""
    for refuse in CHECKS:
        verdict = refuse(server, environment)
        if verdict is not None:
            return verdict
    return refuse_pod_template(server, environment, templates) or ACCEPTED
