"""Pod templates of McpServers: those that anybody may set, and those that need an `unrestrictedPodTemplate`."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def pod(**spec: Any) -> Json:
    """A template with these members in the pod's spec."""
    return {"spec": spec}


def server(**container: Any) -> Json:
    """A template with these members in the server's container."""
    return pod(containers=[{"name": "server", **container}])


def template_with_security(**context: Any) -> Json:
    """A template with these members in that container's security context."""
    return server(securityContext=context)


def template_with_volume(**volume: Any) -> Json:
    """A template with a volume."""
    return pod(volumes=[{"name": "more", **volume}])


_TOKEN = {"serviceAccountToken": {"path": "token"}}
_ELSEWHERE = {"host": "169.254.169.254", "port": 80}

REFUSED: dict[str, list[Json]] = {
    "spec.containers[0].securityContext.privileged": [template_with_security(privileged=True)],
    "spec.containers[0].securityContext.allowPrivilegeEscalation": [
        template_with_security(allowPrivilegeEscalation=True)
    ],
    "spec.containers[0].securityContext.capabilities.add[0]": [
        template_with_security(capabilities={"add": ["SYS_ADMIN"]})
    ],
    "spec.containers[0].securityContext.capabilities.drop[0]": [
        template_with_security(capabilities={"drop": ["NET_RAW"]})
    ],
    "spec.containers[0].securityContext.capabilities.drop": [template_with_security(capabilities={"drop": []})],
    "spec.containers[0].securityContext.runAsUser": [
        template_with_security(runAsUser=0),
        template_with_security(runAsUser=True),
    ],
    "spec.containers[0].securityContext.runAsNonRoot": [template_with_security(runAsNonRoot=False)],
    "spec.containers[0].securityContext.procMount": [template_with_security(procMount="Unmasked")],
    "spec.containers[0].securityContext.seccompProfile.type": [
        template_with_security(seccompProfile={"type": "Unconfined"})
    ],
    "spec.containers[0].securityContext.$patch": [template_with_security(**{"$patch": "replace"})],
    "spec.containers[0].securityContext": [server(securityContext="none")],
    "spec.containers[0].ports[0].hostPort": [server(ports=[{"containerPort": 8080, "hostPort": 10250}])],
    "spec.containers[0].volumeMounts[0].mountPropagation": [
        server(volumeMounts=[{"name": "tmp", "mountPath": "/more", "mountPropagation": "Bidirectional"}])
    ],
    "spec.containers[0].volumeDevices": [server(volumeDevices=[{"name": "disk", "devicePath": "/dev/disk"}])],
    "spec.containers[0].livenessProbe.httpGet.host": [server(livenessProbe={"httpGet": _ELSEWHERE})],
    "spec.containers[0].readinessProbe.tcpSocket.host": [server(readinessProbe={"tcpSocket": _ELSEWHERE})],
    "spec.containers[0].lifecycle.postStart.httpGet.host": [server(lifecycle={"postStart": {"httpGet": _ELSEWHERE}})],
    "spec.containers[0].env[0].valueFrom.fileKeyRef": [
        server(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"path": "p", "key": "k", "volumeName": "tmp"}}}])
    ],
    "spec.containers[0]": [pod(containers=["server"]), pod(containers=[None])],
    "spec.containers": [pod(containers={"name": "server"})],
    "spec.initContainers[0].securityContext.privileged": [
        pod(initContainers=[{"name": "more", "image": "busybox", "securityContext": {"privileged": True}}])
    ],
    "spec.ephemeralContainers": [pod(ephemeralContainers=[{"name": "debug", "image": "busybox"}])],
    "spec.securityContext.runAsNonRoot": [pod(securityContext={"runAsNonRoot": False})],
    "spec.securityContext.runAsUser": [pod(securityContext={"runAsUser": 0})],
    "spec.securityContext.sysctls": [pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})],
    "spec.securityContext.seLinuxOptions": [pod(securityContext={"seLinuxOptions": {"level": "s0:c1,c2"}})],
    "spec.securityContext.windowsOptions": [pod(securityContext={"windowsOptions": {"hostProcess": True}})],
    "spec.hostNetwork": [pod(hostNetwork=True)],
    "spec.hostPID": [pod(hostPID=True)],
    "spec.hostIPC": [pod(hostIPC=True)],
    "spec.hostUsers": [pod(hostUsers=True)],
    "spec.serviceAccountName": [pod(serviceAccountName="default")],
    "spec.serviceAccount": [pod(serviceAccount="default")],
    "spec.automountServiceAccountToken": [pod(automountServiceAccountToken=True)],
    "spec.nodeName": [pod(nodeName="control-plane")],
    "spec.priorityClassName": [pod(priorityClassName="system-node-critical")],
    "spec.runtimeClassName": [pod(runtimeClassName="weaker")],
    "spec.schedulerName": [pod(schedulerName="mine")],
    "spec.shareProcessNamespace": [pod(shareProcessNamespace=True)],
    "spec.resourceClaims": [pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])],
    "spec.volumes[0].hostPath": [template_with_volume(hostPath={"path": "/"})],
    "spec.volumes[0].csi": [template_with_volume(csi={"driver": "secrets-store.csi.k8s.io"})],
    "spec.volumes[0].nfs": [template_with_volume(nfs={"server": "10.0.0.1", "path": "/"})],
    "spec.volumes[0].projected.sources[0].serviceAccountToken": [template_with_volume(projected={"sources": [_TOKEN]})],
    "spec.$patch": [pod(**{"$patch": "replace"})],
    "spec": [{"spec": "none"}],
    "metadata.finalizers": [{"metadata": {"finalizers": ["mine.example/x"]}}],
    "metadata.annotations": [
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/server": "unconfined"}}}
    ],
    "kind": [{"kind": "Pod"}],
}
"""Paths below `spec.podTemplate` that are refused, with refused templates."""

NULLS: list[Json] = [
    template_with_security(allowPrivilegeEscalation=None),
    template_with_security(capabilities=None),
    template_with_security(capabilities={"drop": None}),
    server(securityContext=None),
    pod(securityContext=None),
    pod(securityContext={"runAsNonRoot": None}),
    pod(containers=None),
    {"metadata": {"annotations": None}},
    {"spec": None},
]
"""Templates with null values that would remove restrictions of the pod. A null has no effect."""

TEMPLATES = [(path, template) for path, templates in REFUSED.items() for template in templates]

ALLOWED: dict[str, Json] = {
    "nothing": {},
    "labels and annotations": {"metadata": {"labels": {"team": "search"}, "annotations": {"cost": "low"}}},
    "where it runs": pod(
        nodeSelector={"disk": "ssd"},
        tolerations=[{"operator": "Exists"}],
        affinity={"nodeAffinity": {}},
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        ],
    ),
    "how it ends and looks up names": pod(
        terminationGracePeriodSeconds=5,
        dnsPolicy="ClusterFirst",
        dnsConfig={"options": [{"name": "ndots", "value": "1"}]},
        hostAliases=[{"ip": "10.0.0.9", "hostnames": ["db"]}],
        enableServiceLinks=False,
    ),
    "what is off by default": pod(hostNetwork=False, hostPID=False, hostIPC=False, automountServiceAccountToken=False),
    "another user": pod(
        securityContext={
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 0,
            "fsGroup": 1000,
            "supplementalGroups": [7],
            "seccompProfile": {"type": "Localhost", "localhostProfile": "strict.json"},
        }
    ),
    "a container that writes to its root": template_with_security(
        readOnlyRootFilesystem=False,
        privileged=False,
        runAsUser=1000,
        capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    ),
    "no readiness probe": server(readinessProbe=None),
    "a readiness probe by a program": server(readinessProbe={"exec": {"command": ["true"]}}),
    "a readiness probe by HTTP": server(readinessProbe={"httpGet": {"path": "/healthz", "port": 8080}}),
    "a readiness probe by a connection": server(readinessProbe={"tcpSocket": {"port": 9090}}),
    "a readiness probe by gRPC": server(readinessProbe={"grpc": {"port": 9090}, "periodSeconds": 9}),
    "timings of the readiness probe alone": server(readinessProbe={"periodSeconds": 9, "timeoutSeconds": 3}),
    "a hook that sleeps": server(lifecycle={"preStop": {"sleep": {"seconds": 5}}}),
    "a hook by HTTP": server(lifecycle={"preStop": {"httpGet": {"path": "/stop", "port": 8080}}}),
    "other volumes in place of the generated ones": pod(
        volumes=[
            {"name": "home", "persistentVolumeClaim": {"claimName": "home"}},
            {
                "name": "tmp",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    }
                },
            },
        ],
    ),
    "a generated variable from elsewhere": server(
        env=[{"name": "HOME", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "home"}}}]
    ),
    "probes of its own": server(
        livenessProbe={"httpGet": {"path": "/healthz", "port": 8080}},
        readinessProbe={"exec": {"command": ["true"]}, "tcpSocket": None},
        lifecycle={"preStop": {"exec": {"command": ["true"]}}},
        resources={"limits": {"memory": "64Mi"}},
        ports=[{"containerPort": 9090, "name": "metrics"}],
    ),
    "variables": server(
        env=[
            {"name": "A", "value": "a"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}},
        ],
        envFrom=[{"configMapRef": {"name": "settings"}}],
    ),
    "volumes": pod(
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "pod", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
        ],
        containers=[{"name": "server", "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}]}],
    ),
    "containers beside it": pod(
        containers=[{"name": "proxy", "image": "proxy:1"}],
        initContainers=[{"name": "fetch", "image": "fetch:1", "restartPolicy": "Always"}],
    ),
    "another container with a capability": pod(
        containers=[
            {"name": "proxy", "image": "proxy:1", "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}
        ],
    ),
}
"""Allowed templates by purpose."""
