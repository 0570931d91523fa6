"""Faults of `bench_faults`, and their repair.

Each fault is a function of the world that breaks something, repairs it, and returns the times of both. Some run on the
node: they stop programs of the one-node cluster, kill containers, and cut the network inside a pod.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from faults.node import CLUSTER, api_is_ready, crash, cut, kill, stop, until
from faults.world import SPACE, VICTIM, World, canary, gateway_pods, image_server, server, victim
from installation import (
    NAMESPACE,
    OPERATOR,
    RELEASE,
    apply,
    kubectl,
    read,
    ready_pods,
    run,
)
from rig.harness import Unmeasurable

MANY: Final = 100
Json = dict[str, Any]


@dataclass
class Course:
    """Times of the events of a fault, in seconds of the wall clock."""

    healed: float = 0.0
    """Time from which nothing is broken any more."""
    killed: float = 0.0
    """Time at which a gateway was killed with calls in flight; 0 if none was."""
    also: Callable[[], str] = field(default=lambda: "")
    """Returns a complaint while a further condition for recovery is not met, else an empty string."""
    note: str = ""
    """Remark for the report."""
    finish: Callable[[], None] = field(default=lambda: None)
    """Waits for work that still runs and removes what was created. Its time is not counted."""


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    happens: Callable[[World, bool], Course]
    """Causes the fault. The second argument says whether it has to be quick."""
    quick: bool = False
    """Whether the fault is part of `--quick`."""
    fresh: bool = False
    """Whether pods are replaced before the fault: the kubelet delays the second restart of a container by ten
    seconds."""


def start(killed: float = 0.0) -> Course:
    """Start all programs of the cluster. The fault is healed when pods reach the API server."""
    starting = threading.Thread(target=lambda: run(CLUSTER, "up"), name="cluster up")
    starting.start()
    until("the API server", api_is_ready, 120)
    ready = time.time()
    address = read("service", "-n", "default", "kubernetes")["spec"]["clusterIP"]
    until("the API server in pods", lambda: api_is_ready(f"--server=https://{address}"), 120)
    late = time.time() - ready
    note = f"pods reached the API server {late:.0f} s after it was ready: kube-proxy had not heard of it"
    return Course(healed=time.time(), killed=killed, note=note if late > 1 else "", finish=starting.join)


def operator_killed(_: World, __: bool) -> Course:
    """Kill the operator's container. The kubelet starts it again, and it still holds the Lease."""
    return Course(healed=kill(ready_pods(OPERATOR)[0]))


def operator_pod_gone(_: World, __: bool) -> Course:
    """Delete the operator's pod. The new pod has to take over the Lease, which the old one releases if it has time
    to.
    """
    name = ready_pods(OPERATOR)[0]["metadata"]["name"]
    kubectl("delete", "pod", "-n", NAMESPACE, name, "--force", "--grace-period=0")
    return Course(healed=time.time())


def gateway_killed(_: World, __: bool) -> Course:
    """Kill one of two gateways."""
    at = kill(gateway_pods()[0])
    return Course(healed=at, killed=at)


def gateway_pod_gone(_: World, __: bool) -> Course:
    """Delete a gateway's pod by force, so that it has no time to close connections."""
    pod = gateway_pods()[0]
    at = kill(pod)
    kubectl("delete", "pod", "-n", NAMESPACE, pod["metadata"]["name"], "--force", "--grace-period=0")
    return Course(healed=at, killed=at)


def both_rolled(_: World, __: bool) -> Course:
    """Restart operator and gateways, as an upgrade does."""
    names = [f"deployment/{RELEASE}-gateway", f"deployment/{RELEASE}-operator"]
    kubectl("rollout", "restart", "-n", NAMESPACE, *names)
    for name in names:
        kubectl("rollout", "status", "-n", NAMESPACE, name, "--timeout=180s", seconds=190)
    return Course(healed=time.time())


def api_crashed(_: World, quick: bool) -> Course:
    """Crash the API server for a minute. Meanwhile, a gateway is killed and has to start without it.

    The controller manager ends too, as in clusters with leader election, because it cannot renew its lease. Otherwise
    it would mark all nodes as not ready, because it receives no status of them.
    """
    return _without_api(lambda: crash("kube-apiserver"), quick)


def api_stopped(_: World, quick: bool) -> Course:
    """Shut down the only API server cleanly: it removes its address from the Service through which pods reach it.

    kube-proxy has to add the address again, but after a minute it polls only about twice a minute.
    """
    return _without_api(lambda: stop("kube-apiserver"), quick)


def _without_api(away: Callable[[], None], quick: bool) -> Course:
    pod = gateway_pods()[0]
    away()
    stop("kube-controller-manager")
    time.sleep(5 if quick else 20)
    at = kill(pod)
    time.sleep(10 if quick else 40)
    return start(killed=at)


def etcd_restarted(_: World, __: bool) -> Course:
    """Stop etcd for five seconds."""
    stop("etcd")
    time.sleep(5)
    return start()


def crash_loop(_: World, quick: bool) -> Course:
    """Break a server so that it ends at each start, then repair it."""
    apply(image_server(VICTIM, "raise SystemExit('broken on purpose')", limits={"timeout": "5s", "retries": 0}))
    until("the crash loop", lambda: _restarts() >= 1, 60)
    time.sleep(2 if quick else 15)
    apply(victim())
    until("a good pod", lambda: bool(ready_pods(f"fairlead.dev/server={VICTIM}", SPACE)), 90)
    return Course(healed=time.time())


def _restarts() -> int:
    pods = read("pods", "-n", SPACE, "-l", f"fairlead.dev/server={VICTIM}")["items"]
    return max((s["restartCount"] for pod in pods for s in pod["status"].get("containerStatuses", ())), default=0)


def network_cut(_: World, quick: bool) -> Course:
    """Drop all packets that a gateway sends to one server, without an error."""
    (there,) = {pod["status"]["podIP"] for pod in ready_pods(f"fairlead.dev/server={VICTIM}", SPACE)}
    gateways = gateway_pods()
    for pod in gateways:
        cut(pod, there)
    time.sleep(8 if quick else 40)
    for pod in gateways:
        cut(pod, there, back=True)
    return Course(healed=time.time())


def kubelet_restarted(_: World, __: bool) -> Course:
    """Stop the kubelet for ten seconds."""
    stop("kubelet")
    time.sleep(10)
    return start()


def documents_deleted(_: World, __: bool) -> Course:
    """Delete all catalog documents by hand."""
    kubectl("delete", "configmaps", "-n", NAMESPACE, "-l", "fairlead.dev/document")
    return Course(healed=time.time(), also=_documents_amiss)


def _documents_amiss() -> str:
    config_maps = read("configmaps", "-n", NAMESPACE, "-l", "fairlead.dev/document")["items"]
    kinds = sorted(item["metadata"]["labels"]["fairlead.dev/document"] for item in config_maps)
    return "" if kinds.count("catalog") >= 4 and "rules" in kinds else f"documents are {kinds}"


def edited_meanwhile(_: World, __: bool) -> Course:
    """Make twenty edits in a row, each while the operator handles the previous one."""
    for number in range(20):
        apply(canary(f"edit {number}"))
    return Course(healed=time.time())


def many_at_once(_: World, __: bool) -> Course:
    """Create a hundred servers by URL. Recovery means that all are Ready."""
    url = f"http://alpha.{SPACE}.svc:8080/mcp"
    items = [server(f"many-{number}", url=url, calibration={"probe": "Never"}) for number in range(MANY)]
    for item in items:
        item["metadata"]["labels"] = {"faults": "many"}
    apply(*items)
    return Course(healed=time.time())


def many_gone(_: World, __: bool) -> Course:
    """Delete the hundred servers of `many_at_once`."""
    kubectl("delete", "mcps", "-n", SPACE, "-l", "faults=many", seconds=120)
    return Course(healed=time.time(), also=_many_left)


def _many_left() -> str:
    path = "jsonpath={.items[*].metadata.labels.fairlead\\.dev/server}"
    names = kubectl("get", "configmaps", "-n", NAMESPACE, "-l", "fairlead.dev/document=catalog", "-o", path).split()
    left = sum(name.startswith("many-") for name in names)
    return f"{left} catalogs of deleted servers are left" if left else ""


def redis_gone(here: World, _: bool) -> Course:
    """Freeze Redis for ten seconds, then kill it for ten seconds."""
    here.redis.freeze()
    time.sleep(10)
    here.redis.thaw()
    time.sleep(3)
    here.redis.kill()
    time.sleep(10)
    here.redis.start()
    return Course(healed=time.time())


FAKETIME: Final = "/usr/lib/x86_64-linux-gnu/faketime"


def clock_jumped(here: World, quick: bool) -> Course:
    """Set the operator's wall clock two hours ahead, then three hours back; its monotonic clock continues."""
    if not Path(FAKETIME).is_dir():
        raise Unmeasurable("libfaketime is not installed: apt-get install faketime")
    clock = here.folder / "clock"
    clock.mkdir(exist_ok=True)
    (clock / "offset").write_text("+0\n")
    mounts = {"faketime": FAKETIME, "clock": str(clock)}
    env = {
        "LD_PRELOAD": "/faketime/libfaketimeMT.so.1",
        "FAKETIME_TIMESTAMP_FILE": "/clock/offset",
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in mounts.items()]
    places = [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in mounts]
    variables = [{"name": name, "value": value} for name, value in env.items()]
    operator = {"name": "operator", "env": variables, "volumeMounts": places}
    patch = {"volumes": volumes, "containers": [operator]}
    name = f"deployment/{RELEASE}-operator"
    body = json.dumps({"spec": {"template": {"spec": patch}}})
    kubectl("patch", "-n", NAMESPACE, name, "--type=strategic", "-p", body)
    kubectl("rollout", "status", "-n", NAMESPACE, name, "--timeout=120s", seconds=130)
    for hours in (2, -1):
        (clock / "offset").write_text(f"{hours:+d}h\n")
        until("a Lease with the new time", partial(_lease_ahead_by, hours), 30)
        here.converged(time.time(), seconds=60)
    (clock / "offset").write_text("+0\n")
    return Course(healed=time.time(), finish=_own_clock)


def _own_clock() -> None:
    """Restore the operator's clock."""
    name = f"deployment/{RELEASE}-operator"
    kubectl("rollout", "undo", "-n", NAMESPACE, name)
    kubectl("rollout", "status", "-n", NAMESPACE, name, "--timeout=120s", seconds=130)


def _lease_ahead_by(hours: int) -> bool:
    """Whether the operator's last renewal of the Lease lies that many seconds in the future."""
    renewed = read("lease", "-n", NAMESPACE, f"{RELEASE}-operator")["spec"]["renewTime"]
    ahead = datetime.fromisoformat(renewed) - datetime.now(UTC)
    return abs(ahead.total_seconds() / 3600 - hours) < 0.1


FAULTS: Final = (
    Fault("operator killed", operator_killed, quick=True, fresh=True),
    Fault("operator's pod deleted by force", operator_pod_gone),
    Fault("gateway killed", gateway_killed, quick=True, fresh=True),
    Fault("gateway's pod gone", gateway_pod_gone),
    Fault("both rolled", both_rolled, quick=True),
    Fault("API server crashed and away for a minute, a gateway restarted meanwhile", api_crashed, fresh=True),
    Fault("API server told to end and away for a minute, a gateway restarted meanwhile", api_stopped, fresh=True),
    Fault("etcd restarted", etcd_restarted),
    Fault("MCP server crash-looping", crash_loop),
    Fault("network cut between gateways and one server", network_cut, quick=True),
    Fault("kubelet restarted", kubelet_restarted),
    Fault("Redis frozen, then gone", redis_gone),
    Fault("all documents deleted by hand", documents_deleted, quick=True),
    Fault("McpServer edited 20 times in a row", edited_meanwhile, quick=True),
    Fault(f"{MANY} McpServers at once", many_at_once),
    Fault(f"{MANY} McpServers deleted at once", many_gone),
    Fault("operator's clock jumped by 2 h and back by 3 h", clock_jumped),
)
"""Faults in the order in which they happen."""
