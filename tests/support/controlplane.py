"""A real control plane for tests: etcd and kube-apiserver on loopback, as envtest gives Go projects.

Nothing runs pods. With `controllers=True` a kube-controller-manager adds garbage collection, namespace
deletion, EndpointSlices and the rest of the built-in controllers. Tests reach it through the fixtures of
`conftest.py`; it belongs to one test process and is thrown away with it.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from audit import AuditLog
from planepki import Pki
from planeprocesses import GARBAGE, Program
from planerequests import KeptConnections
from ports import free_port
from waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
CRD_FOLDER = REPOSITORY / "crds"
_GROUP = "/apis/fairlead.dev/v1alpha1"
# Objects that a test may leave in its namespace. They are deleted with it, because no namespace controller runs.
_NAMESPACED = (
    f"{_GROUP}/namespaces/{{}}/mcpservers",
    f"{_GROUP}/namespaces/{{}}/toolpolicies",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/pods",
    "/api/v1/namespaces/{}/configmaps",
    "/api/v1/namespaces/{}/secrets",
    "/api/v1/namespaces/{}/serviceaccounts",
)

# All that an API server keeps in etcd, `/registry/` and what follows, as etcd's JSON takes a range of keys.
_ETCD_BEGIN, _ETCD_END = (base64.b64encode(key).decode() for key in (b"/registry/", b"/registry0"))


class NoControlPlane(Exception):
    """The programs are missing. The message is one sentence that says how to get them."""


def find_assets() -> Path:
    """The folder of etcd, kube-apiserver and kubectl: `KUBEBUILDER_ASSETS`, else what `hack/test` cached.

    Raises:
        NoControlPlane: there is none. Nothing is compiled here: that takes minutes, a test has seconds.
    """
    script = REPOSITORY / "hack" / "kubernetes" / "assets"
    done = subprocess.run([script, "--cached"], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise NoControlPlane(done.stderr.strip())
    return Path(done.stdout.strip())


class ControlPlane:
    """etcd and an API server (and controllers on request) of one test process, in `folder`. `audit` logs each write.

    `start` returns when /readyz answers; `stop` ends everything. The API server may be killed and started
    again in between: etcd keeps the objects and the port stays.
    """

    def __init__(self, folder: Path, assets: Path, *, controllers: bool = False, audit: bool = False) -> None:
        self.folder = folder
        self.assets = assets
        self.audit = AuditLog(folder) if audit else None
        self._pki = Pki(folder / "pki")
        self._port = free_port()
        self._etcd_port = etcd_port = free_port()
        peer_port = free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self.kubeconfig_for("admin", ["system:masters"])
        crt = folder / "pki" / "user-admin.crt"
        key = folder / "pki" / "user-admin.key"
        self._tls = ssl.create_default_context(cafile=str(self._pki.ca))
        self._tls.load_cert_chain(crt, key)
        self._connections = KeptConnections(self._port, self._tls)
        self._etcd = self._program("etcd", _etcd_flags(folder / "etcd", etcd_port, peer_port))
        flags = _apiserver_flags(self._pki, self._port, etcd_port)
        self._apiserver = self._program("kube-apiserver", [*flags, *(self.audit.flags() if self.audit else ())])
        self._controllers: Program | None = None
        self._paused = False
        if controllers:
            self._controllers = self._program("kube-controller-manager", self._controller_flags())

    def _program(self, name: str, flags: Iterable[str]) -> Program:
        if not (path := self.assets / name).exists():
            raise NoControlPlane(
                f"{path} is not there: `hack/kubernetes/build {name}` compiles it, with Go 1.26 or newer"
            )
        return Program(name, [str(path), *flags], self.folder / f"{name}.log")

    def _controller_flags(self) -> list[str]:
        config = self.kubeconfig_for("system:kube-controller-manager", ["system:masters"])
        return [
            f"--kubeconfig={config}",
            f"--service-account-private-key-file={self._pki.service_account_key}",
            f"--root-ca-file={self._pki.ca}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--namespace-sync-period=1s",
            "--concurrent-gc-syncs=2",
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all programs and wait until the API server is ready. Raises AssertionError with its log otherwise."""
        self._etcd.start()
        self.start_apiserver()
        if self._controllers is not None:
            self._controllers.start()

    def stop(self) -> None:
        """End all programs with SIGKILL; their data is thrown away."""
        self._connections.close()
        for program in (self._controllers, self._apiserver, self._etcd):
            if program is not None:
                program.kill()

    def start_apiserver(self, *, seconds: float = 40.0) -> None:
        """Start the API server (again) on the same port, and wait until it is ready."""
        self._apiserver.start()
        try:
            until("kube-apiserver ready", self._is_ready, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._apiserver.tail()}\n{self._etcd.tail(5)}") from None

    def restart_controllers(self) -> None:
        """Restart the controllers: the garbage collector looks for new kinds only every 30 s and at its start."""
        if self._controllers is not None:
            self._controllers.kill()
            self._controllers.start()

    def kill_apiserver(self) -> None:
        """Kill the API server: every watch and every request in flight breaks."""
        self._apiserver.kill()

    def pids(self) -> dict[str, int]:
        """Process ids of the running programs, by name, so that their resources can be measured."""
        programs = (self._etcd, self._apiserver, self._controllers)
        return {program.name: program.pid for program in programs if program is not None and program.running}

    def pause(self) -> None:
        """Stop the programs where they are: an idle API server and its etcd take a seventieth of a core."""
        self._paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have the programs go on after a pause, which requests and kubectl do by themselves. No-op otherwise."""
        if self._paused:
            self._paused = False
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for program in (self._etcd, self._apiserver, self._controllers):
            if program is not None:
                program.signal(number)

    def _is_ready(self) -> bool:
        if not self._apiserver.running:
            raise AssertionError("kube-apiserver ended")
        try:
            status, _ = self.request("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Path of a kubeconfig for `user` in `groups`, with the permissions that RBAC gives: at first none."""
        path = self.folder / f"{user.replace(':', '_')}.kubeconfig"
        path.write_text(self._pki.kubeconfig(user, groups, self.server))
        path.chmod(0o600)
        return path

    def kubectl(
        self,
        *args: str,
        kubeconfig: Path | None = None,
        stdin: str | None = None,
        check: bool = True,
        seconds: float = 45,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as admin, or with another kubeconfig, for at most `seconds`. With `check`, raises AssertionError
        for a failure.
        """
        self.resume()
        command = [str(self.assets / "kubectl"), f"--kubeconfig={kubeconfig or self.kubeconfig}", *args]
        # Its discovery cache must not outlive the plane.
        environment = {**GARBAGE, **os.environ, "HOME": str(self.folder)}
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}: exit {done.returncode}\n{done.stderr.strip()}")
        return done

    def apply(self, manifest: str, *, namespace: str = "default") -> None:
        """Apply YAML or JSON text server-side. Raises AssertionError with the server's message for a refusal."""
        self.kubectl("-n", namespace, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """One request to the API server as admin: (status, decoded JSON, or text where it is not JSON). A body of bytes
        is sent as it is.

        A few milliseconds where kubectl takes a hundred. Raises OSError or http.client.HTTPException while
        the server is away.
        """
        self.resume()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        status, text = self._connections.request(method, path, data, headers)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def install_crds(self, folder: Path = CRD_FOLDER) -> None:
        """Apply the CRDs of `folder` (its own `*.yaml`, no subfolder) and wait until they are served."""
        if not (files := sorted(folder.glob("*.yaml"))):
            return
        self.kubectl("apply", "--server-side", *(f"--filename={file}" for file in files))
        self.await_definitions()
        if folder == CRD_FOLDER:  # kubectl uses discovery, which is updated late
            listed = ("api-resources", "--api-group=fairlead.dev", "--no-headers", "--output=name")
            until(
                "kinds discovered", lambda: self.kubectl(*listed).stdout.count("fairlead.dev") == len(files), seconds=20
            )

    def await_definitions(self) -> None:
        """Wait until every CRD is served. `kubectl wait` fails for a CRD that has no status yet."""

        def is_served(item: Any) -> bool:
            conditions = (item.get("status") or {}).get("conditions") or ()
            return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        until("CRDs established", lambda: all(map(is_served, self.request("GET", path)[1]["items"])), seconds=20)

    def create_namespace(self, name: str, labels: dict[str, str] | None = None) -> str:
        """Create a namespace. Raises AssertionError if the API server refuses."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}
        status, answer = self.request("POST", "/api/v1/namespaces", body)
        assert status == 201, answer
        return name

    def remove_namespace(self, name: str) -> None:
        """Delete a namespace and its objects at once, without the namespace controller."""
        for path in self._collections_of(name):
            self.request("DELETE", f"{path.format(name)}?gracePeriodSeconds=0&propagationPolicy=Background")
        self.request("DELETE", f"/api/v1/namespaces/{name}")
        status, namespace = self.request("GET", f"/api/v1/namespaces/{name}")
        if status == 200:
            namespace["spec"]["finalizers"] = []
            self.request("PUT", f"/api/v1/namespaces/{name}/finalize", namespace)

    def _collections_of(self, namespace: str) -> list[str]:
        """Those of `_NAMESPACED` that have an object: to ask etcd for all keys costs less than one empty deletion."""
        span = {"key": _ETCD_BEGIN, "range_end": _ETCD_END, "keys_only": True}
        with closing(http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=10)) as etcd:
            etcd.request("POST", "/v3/kv/range", json.dumps(span))
            answer = json.loads(etcd.getresponse().read())
        keys = [base64.b64decode(each["key"]).decode().split("/") for each in answer.get("kvs", ())]
        kinds = {part for key in keys if namespace in key for part in key[: key.index(namespace)]}
        return [path for path in _NAMESPACED if path.rpartition("/")[2] in kinds]


class PlaneFactory(Protocol):
    """Type of the fixture `private_plane`."""

    def __call__(self, *, controllers: bool = False, crds: bool = True, audit: bool = False) -> ControlPlane: ...


def _etcd_flags(data: Path, port: int, peer_port: int) -> list[str]:
    client = f"http://127.0.0.1:{port}"
    peer = f"http://127.0.0.1:{peer_port}"
    return [
        "--name=test",
        f"--data-dir={data}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        "--log-level=warn",
    ]


def _apiserver_flags(pki: Pki, port: int, etcd_port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={pki.server_crt}",
        f"--tls-private-key-file={pki.server_key}",
        f"--client-ca-file={pki.ca}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",  # no controller creates the default account
        "--allow-privileged",
        "--profiling=false",
        "--endpoint-reconciler-type=none",
        "--shutdown-delay-duration=0s",
    ]
