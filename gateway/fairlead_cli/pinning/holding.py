"""Reads and approves held-back definitions where the operator stores them: on a cluster, or in a running `fairlead up`.

On a cluster, approving needs the right to edit the McpServer; with `fairlead up`, the right to write to its folder.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fairlead_api.documents.codec import UnreadableDocument, decode
from fairlead_api.documents.pins import PINS, Pins
from fairlead_api.documents.store import DocumentAssembler
from fairlead_api.meta import LABEL_DOCUMENT, ServerKey
from fairlead_cli.cluster.reaching import on_cluster
from fairlead_cli.failure import USAGE_ERROR, Failure, needs

if TYPE_CHECKING:
    from fairlead_kube.client import Kube

T = TypeVar("T")


class PinLocation(Protocol):
    """Pins of one installation."""

    @property
    def description(self) -> str:
        """Which installation it is, and how to name another one."""
        ...

    def pins(self) -> Mapping[ServerKey, Pins]:
        """Pins of every server with `pin: true` whose tools have been listed. Raises Failure."""
        ...

    def approve(self, key: ServerKey, approval: str) -> str:
        """Approve the held-back definitions with the hash `approval`; the operator ignores an outdated hash. Returns
        what was written, such as the path of a file. Raises Failure.
        """
        ...


def location_of(state_dir: Path | None, kubeconfig: str, namespace: str | None, url: str | None) -> PinLocation | str:
    """The installation that the options name; for `--url`, the URL of the gateway itself. Without options, a running
    `fairlead up` of this user takes precedence over a cluster. Raises Failure.
    """
    if state_dir is not None:
        if kubeconfig or namespace:
            message = "--state-dir cannot be combined with --kubeconfig or --namespace, which are for a cluster"
            raise Failure(message, code=USAGE_ERROR)
        folder = state_dir.expanduser().absolute()
        if not (folder / "documents").is_dir():
            raise Failure(f"--state-dir: {folder} is not the folder of a `fairlead up --state-dir`", code=USAGE_ERROR)
        return Local(folder)
    if kubeconfig or namespace:
        return Cluster(kubeconfig, namespace)
    if url:
        return url
    with needs("operator"):
        from fairlead_cli.up.folders import running_folders, running_urls
    folders = running_folders(os.environ)
    if len(folders) > 1:
        choices = " or ".join(f"--url {url}" for url in running_urls(folders)) or "--url"
        raise Failure(f"several `fairlead up` are running: choose one with {choices}")
    if not folders and not _may_have_cluster(os.environ):
        raise Failure(
            "no `fairlead up` of this user is running, and no kubeconfig was found: give the gateway's --url, a "
            "--state-dir, or a --kubeconfig"
        )
    return Local(folders[0]) if folders else Cluster(kubeconfig, namespace)


def _may_have_cluster(environ: Mapping[str, str]) -> bool:
    """Whether a cluster is configured: by KUBECONFIG, the user's kubeconfig, or a pod's ServiceAccount."""
    if environ.get("KUBECONFIG") or environ.get("KUBERNETES_SERVICE_HOST"):
        return True
    return Path(environ.get("HOME") or Path.home(), ".kube", "config").is_file()


@dataclass(frozen=True)
class Local:
    """The folder of a `fairlead up`, which only its user can read and write."""

    root: Path

    @property
    def description(self) -> str:
        return f"the `fairlead up` with the folder {self.root}; for a cluster, add --namespace, that of the release"

    def pins(self) -> Mapping[ServerKey, Pins]:
        try:
            return _pins([file.read_bytes() for file in sorted((self.root / "documents").glob("fairlead-pins-*.json"))])
        except OSError as error:
            raise Failure(f"{error.filename} cannot be read: {error.strerror}") from error

    def approve(self, key: ServerKey, approval: str) -> str:
        with needs("operator"):
            from fairlead_operator.local.approvals import write
            from fairlead_operator.ports import PlatformTrouble
        try:
            return str(write(self.root / "approvals", key, approval))
        except PlatformTrouble as error:
            raise Failure(str(error)) from error


@dataclass(frozen=True)
class Cluster:
    """Cluster of a kubeconfig; `namespace` is the release's namespace."""

    kubeconfig: str
    namespace: str | None

    @property
    def description(self) -> str:
        return f"namespace {self._release_namespace()} of the cluster; --namespace names that of the release"

    def pins(self) -> Mapping[ServerKey, Pins]:
        async def read(kube: Kube) -> Mapping[ServerKey, Pins]:
            from fairlead_kube.resources import CONFIG_MAPS, Json, Scope
            from fairlead_operator.kube.documents import blob_from

            selector = f"{LABEL_DOCUMENT}={PINS}"
            items, _ = await kube.list(Scope(CONFIG_MAPS, Json, self._release_namespace(), selector))
            reader = DocumentAssembler()
            reader.replace(map(blob_from, items))
            return _pins(reader.documents.values())

        return self._run(read)

    def approve(self, key: ServerKey, approval: str) -> str:
        async def approve(kube: Kube) -> None:
            from fairlead_kube.resources import MCP_SERVERS

            user = await _user(kube)
            change = approval_patch(approval, user)
            await kube.merge(MCP_SERVERS, key.namespace, key.name, change, manager="fairlead-approve")

        self._run(approve)
        return f"spec.approval of McpServer {key}"

    def _release_namespace(self) -> str:
        with needs("operator"):
            from fairlead_operator.settings import Settings
        return Settings.from_env(namespace=self.namespace).release.release_namespace

    def _run(self, work: Callable[[Kube], Awaitable[T]]) -> T:
        rights = "Use an account that may list the release's configmaps, and patch mcpservers to approve."
        return on_cluster(self.kubeconfig, work, rights=rights)


def approval_patch(approval: str, user: str) -> dict[str, Any]:
    """JSON merge patch that approves definitions of an McpServer. If `user` is empty, the user of the previous approval
    is removed.
    """
    return {"spec": {"approval": {"hash": approval, "by": user[:256] or None}}}


async def _user(kube: Kube) -> str:
    """This account's user name according to the API server; empty if the API server does not report it."""
    from fairlead_kube.errors import ApiError
    from fairlead_kube.resources import SELF_SUBJECT_REVIEWS

    try:
        answer = await kube.create(SELF_SUBJECT_REVIEWS, None, {"metadata": {}}, manager="fairlead-approve")
    except ApiError:
        return ""
    return str(answer["status"]["userInfo"].get("username", ""))


def _pins(documents: Iterable[bytes]) -> dict[ServerKey, Pins]:
    all_pins = {}
    for data in documents:
        try:
            document = decode(data)
        except UnreadableDocument:
            continue
        if isinstance(document, Pins):
            all_pins[document.key] = document
    return all_pins
