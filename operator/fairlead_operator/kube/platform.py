"""Runs servers on a cluster: implements `ports.Platform`.

Applies the plans of `server.object_plan` in the namespaces of the servers, and copies their credentials into Secrets
that gateways may read. The only decision of this module is whether an error of the API server is temporary or has to be
cured by a user.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from fairlead_api.documents.catalog import Credential, Endpoint, EventsEndpoint, HttpEndpoint, TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, Conflict, Invalid, NamespaceTerminating, NotFound, NotLeading
from fairlead_kube.resources import DEPLOYMENTS, MCP_SERVERS
from fairlead_operator.kube.config_maps import environment_revision
from fairlead_operator.kube.credentials import CredentialStore, Resolver, credential_ref
from fairlead_operator.kube.declared_resources import BrokenResource, DeclaredServers
from fairlead_operator.kube.drift import DriftRepairs, Writers, WriteTarget, content_of
from fairlead_operator.kube.events import Events
from fairlead_operator.kube.failure_logs import FailureLogs
from fairlead_operator.kube.owned import ForeignObject, OwnedObjects
from fairlead_operator.kube.pods import Pods
from fairlead_operator.openapi.api_source import ApiSource
from fairlead_operator.ports import (
    REFUSALS,
    Announcement,
    ConditionVerdict,
    Environment,
    ResolvedCredential,
    UnreadableServer,
    Workload,
)
from fairlead_operator.server import deployment_status, stdio_gate
from fairlead_operator.server.kube_manifests import ManifestContext, domain_policy, program_digest, service_host
from fairlead_operator.server.object_plan import WorkloadPlan, plan
from fairlead_operator.server.spec_checks import RESTRICTED, PodTemplateChecker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class KubePlatformParts:
    """Components of a platform; informers fill their stores."""

    servers: DeclaredServers
    owned: OwnedObjects
    resolver: Resolver
    credential_store: CredentialStore
    events: Events
    pods: Pods
    installation: ManifestContext
    """Values of the installation that manifests depend on."""
    pod_templates: PodTemplateChecker = RESTRICTED
    """Decides in which namespaces servers may have an unrestricted pod template."""
    enforcement: Callable[[], ConditionVerdict | None] | None = None
    """Returns the verdict of the network probe; None if the probe is switched off."""
    failure_logs: FailureLogs | None = None
    """Reads the log lines that explain failures; None if logs are not read."""
    enqueue: Callable[[ServerKey], None] = lambda key: None
    """Schedules a reconcile of a server."""
    drift: DriftRepairs = field(default_factory=DriftRepairs)


class KubePlatform:
    """Runs servers on a cluster, as Deployments or behind URLs."""

    def __init__(self, kube: Kube, parts: KubePlatformParts) -> None:
        self._kube = kube
        self._enqueue = parts.enqueue
        self._drift = parts.drift
        self._servers = parts.servers
        self._owned = parts.owned
        self._resolver = parts.resolver
        self._credential_store = parts.credential_store
        self._events = parts.events
        self._failure_logs = parts.failure_logs
        self._pods = parts.pods
        self._installation = parts.installation
        self._pod_templates = parts.pod_templates
        self._enforcement = parts.enforcement

    @property
    def environment(self) -> Environment:
        return "cluster"

    async def keys(self) -> Collection[ServerKey]:
        return list(self._servers)

    async def get(self, key: ServerKey) -> McpServer | None:
        server = self._servers.server(key)
        if isinstance(server, BrokenResource):
            await self._report_broken(key, server)
            raise UnreadableServer(server.problem)
        return server

    async def credential(self, server: McpServer) -> ResolvedCredential:
        resolved_credential = await self._resolver.resolve(server, request_url(server))
        if server.spec.effective_transport == "stdio":
            resolved_credential = self._add_token(server, resolved_credential)
        if resolved_credential.value is not None:
            await self._credential_store.put(server.key, resolved_credential.value)
        elif resolved_credential.verdict.ok is not None:
            await self._credential_store.remove(server.key)
        return resolved_credential

    def _add_token(self, server: McpServer, credential: ResolvedCredential) -> ResolvedCredential:
        """Add the token for the gate of a stdio server; also if the server's Secrets cannot be used, because running
        pods require the token.
        """
        token = self._credential_store.token(server.key) or secrets.token_urlsafe(32)
        version = "" if credential.ref is None else f" {credential.ref.hash}"
        return dataclasses.replace(
            credential,
            ref=credential_ref(server.key, f"{stdio_gate.digest(token)}{version}", self._credential_store.name),
            value=Credential(token=token, arguments={} if credential.value is None else credential.value.arguments),
        )

    async def ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        workload = await self._ensure(server, credential)
        workload = dataclasses.replace(workload, undone_writes=self._drift.verdict(server.key))
        if self._enforcement is None or server.spec.source_kind not in ("image", "package"):
            return workload
        return dataclasses.replace(workload, network_enforcement=self._enforcement())

    async def _ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        endpoint = endpoint_of(server)
        revision = self._resolver.revision(server)
        try:
            config_maps_revision = await environment_revision(self._kube, server)
        except ApiError as error:
            return Workload(ConditionVerdict(None, Cause.APPLY_FAILED, str(error)), endpoint)
        token = credential.value.token if credential.value is not None else ""
        context = dataclasses.replace(
            self._installation,
            secrets_revision=revision,
            config_maps_revision=config_maps_revision,
            token_digest=stdio_gate.digest(token),
            restricted=self._pod_templates.restricts(server.metadata.namespace),
            absent_secrets=credential.absent_secrets,
        )
        if not context.domain_policies and domain_policy(server, context) is not None:
            return Workload(deployment_status.NO_DOMAIN_POLICIES, endpoint)
        workload_plan = plan(server, context)
        if credential.pods_refusal is not None:
            return Workload(deployment_status.NOT_STARTED, endpoint)
        try:
            await self._apply_plan(server, workload_plan)
        except ForeignObject as error:
            return Workload(ConditionVerdict(False, Cause.NAME_TAKEN, str(error)), endpoint)
        except (NotLeading, NamespaceTerminating):
            raise
        except REFUSALS as error:
            return Workload(ConditionVerdict(False, Cause.APPLY_REFUSED, str(error)), endpoint)
        except ApiError as error:
            return Workload(ConditionVerdict(None, Cause.APPLY_FAILED, str(error)), endpoint)
        if not workload_plan.apply:
            return Workload(deployment_status.NOTHING_TO_RUN, endpoint)
        deployment = self._owned.last_seen(DEPLOYMENTS, server.metadata.namespace, server.metadata.name)
        generation, status = (deployment.generation, deployment.status) if deployment is not None else (0, {})
        if deployment_status.is_rolling(server, generation, status):
            endpoint = endpoint_of(server, self._pods.serving_port(server))
        verdict, outage = deployment_status.judge(server, generation, status)
        missing_pods, recheck_after_s = None, None
        is_replacing = (
            verdict.ok is True and outage is None and deployment_status.is_rolling(server, generation, status)
        )
        if outage is not None or not verdict.ok or not deployment_status.is_complete(server, status):
            symptom = self._pods.symptom(server.key)
            missing_pods = deployment_status.missing_pods(server, generation, status, symptom)
            verdict, outage = deployment_status.add_symptom(verdict, outage, symptom)
            recheck_after_s = (
                self._pods.seconds_until_fault(server.key) if outage is not None or verdict.ok is not False else None
            )
        return Workload(
            verdict,
            endpoint,
            deployment_status.rollout_revision(generation, status),
            outage,
            deployment_status.pod_count(server, status),
            recheck_after_s,
            missing_pods=missing_pods,
            replacing=is_replacing and missing_pods is None,
        )

    async def report(self, server: McpServer, status: McpServerStatus) -> None:
        if status.to_wire() == server.status.to_wire():
            return
        key, wire = server.key, status.to_wire()
        metadata = {"name": key.name, "resourceVersion": server.metadata.resource_version}
        body = {"metadata": metadata, "status": wire}
        try:
            answer = await self._drift.write(
                _status_of(key),
                content_of(wire),
                Writers.of({"metadata": {"managedFields": server.metadata.managed_fields}}, "status"),
                partial(self._enqueue, key),
                partial(self._kube.apply, MCP_SERVERS, key.namespace, body, subresource="status"),
                owner=key,
            )
        except (Conflict, NotFound):
            return  # the server was changed or deleted meanwhile: that event triggers the next reconcile
        if answer is not None:
            self._servers.update(answer)

    async def announce(self, resource: Resource, announcement: Announcement) -> None:
        await self._events.post(resource, announcement)

    async def failure_line(self, server: McpServer) -> str:
        return "" if self._failure_logs is None else await self._failure_logs.read(server)

    def retry(self, key: ServerKey) -> None:
        """No-op: the kubelet restarts containers, with its own back-off."""

    async def forget(self, key: ServerKey) -> None:
        self._owned.forget(key)
        self._drift.forget([_status_of(key)])
        await self._credential_store.remove(key)

    async def sweep(self, existing_keys: Collection[ServerKey]) -> None:
        await self._credential_store.sweep(existing_keys)

    async def _apply_plan(self, server: McpServer, workload_plan: WorkloadPlan) -> None:
        uid, (namespace, name) = server.metadata.uid, server.key
        for kind, manifest in workload_plan.apply:
            await self._owned.apply(kind, manifest, uid)
        for kind in workload_plan.remove:
            await self._owned.remove(kind, namespace, name, uid)

    async def _report_broken(self, key: ServerKey, broken: BrokenResource) -> None:
        """Write the conditions of an unreadable resource, unless its status already has them."""
        previous_conditions = broken.item.get("status", {}).get("conditions") or ()
        if any(
            condition.get("reason") == Cause.INVALID and condition.get("message") == broken.problem
            for condition in previous_conditions
        ):
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        generation = broken.item["metadata"].get("generation", 0)
        conditions = [
            {
                "type": kind,
                "status": "False",
                "reason": Cause.INVALID,
                "message": broken.problem,
                "observedGeneration": generation,
                "lastTransitionTime": now,
            }
            for kind in (ConditionType.ACCEPTED, ConditionType.READY)
        ]
        status = {"conditions": conditions, "observedGeneration": generation}
        body = {"metadata": {"name": key.name}, "status": status}
        try:
            await self._drift.write(
                _status_of(key),
                content_of(status),
                Writers.of(broken.item, "status"),
                partial(self._enqueue, key),
                partial(self._kube.apply, MCP_SERVERS, key.namespace, body, subresource="status"),
            )
        except (Invalid, NotFound) as error:  # a validation rule cannot be evaluated, or the resource was deleted
            logger.warning("the status of McpServer %s cannot be written: %s", key, error)


def _status_of(key: ServerKey) -> WriteTarget:
    return WriteTarget(MCP_SERVERS, key.namespace, key.name, "status")


def endpoint_of(server: McpServer, port: int | None = None) -> Endpoint:
    """The endpoint of a server on a cluster. `port` is the port on which its pods serve; None stands for that of the
    spec.
    """
    spec = server.spec
    api = ApiSource.of(server)
    if api is not None:
        return api.endpoint()
    if spec.effective_transport == "stdio":
        source = spec.image or spec.package
        return TcpEndpoint(
            host=service_host(server),
            port=port or spec.effective_port,
            program=source.name if source is not None and spec.starts_with_keys else "",
            program_digest=program_digest(server),
        )
    url = request_url(server, port)
    if spec.effective_transport == "sse":
        return EventsEndpoint(url=url, host_header=spec.host_header, ca_bundle=spec.ca_bundle)
    return HttpEndpoint(url=url, host_header=spec.host_header, ca_bundle=spec.ca_bundle)


def request_url(server: McpServer, port: int | None = None) -> str:
    """The URL to which requests and credentials are sent, regardless of `hostHeader`; empty for an HTTP API whose URL
    is in its OpenAPI document.
    """
    if server.spec.openapi is not None:
        return server.spec.openapi.base_url or ""
    port = port or server.spec.effective_port
    return server.spec.url or f"http://{service_host(server)}:{port}{server.spec.effective_path}"
