"""API keys in a Secret of a cluster, changed by server-side apply."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead_cli.cluster.reaching import on_cluster
from fairlead_cli.failure import Failure
from fairlead_gateway.identity.key_format import LABEL, MEMBER, BadKeys, KeyDocument, encode_keys, read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairlead_kube.client import Kube

Result = TypeVar("Result")

MANAGER: Final = "fairlead-keys"
"""Field manager of the Secret's label and of the member with the keys; other fields keep their managers."""
TRIES: Final = 5


class KeySecretLocation:
    """A Secret of keys, which is created with its label if necessary."""

    def __init__(self, name: str, namespace: str, kubeconfig: Path | None) -> None:
        self._name = name
        self._namespace = namespace
        self._kubeconfig = "" if kubeconfig is None else str(kubeconfig)

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    @property
    def option(self) -> str:
        kubeconfig = f" --kubeconfig {shlex.quote(self._kubeconfig)}" if self._kubeconfig else ""
        return f"--secret {self._name} --namespace {self._namespace}{kubeconfig}"

    def load(self) -> KeyDocument:
        """The keys; none if the Secret does not exist. Raises Failure."""

        async def work(kube: Kube) -> KeyDocument:
            return self._keys(await self._read_secret(kube))

        return self._run(work, "get")

    def change(self, change: Callable[[KeyDocument], KeyDocument]) -> None:
        """Read, change and write the keys; repeat if another writer was faster. Raises Failure."""

        async def work(kube: Kube) -> None:
            from fairlead_kube.errors import Conflict

            for attempt in range(TRIES):
                try:
                    await self._change(kube, change)
                except Conflict:
                    if attempt == TRIES - 1:
                        raise
                else:
                    return

        self._run(work, "get, create and patch")

    async def _change(self, kube: Kube, change: Callable[[KeyDocument], KeyDocument]) -> None:
        """Change the keys once. Raises Conflict if the Secret has changed since it was read."""
        from fairlead_kube.resources import SECRETS

        secret = await self._read_secret(kube)
        old_keys = self._keys(secret)
        new_keys = change(old_keys)
        if new_keys is old_keys:
            return
        metadata: dict[str, Any] = {"name": self._name, "labels": {LABEL: "true"}}
        body = {"metadata": metadata, "data": {MEMBER: base64.b64encode(encode_keys(new_keys.keys)).decode()}}
        if secret is None:  # an apply would overwrite a Secret that is being created concurrently
            head = {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind}
            await kube.create(SECRETS, self._namespace, {**head, **body}, manager=MANAGER)
        else:
            metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
            await kube.apply(SECRETS, self._namespace, body, manager=MANAGER)

    async def _read_secret(self, kube: Kube) -> dict[str, Any] | None:
        from fairlead_kube.errors import NotFound
        from fairlead_kube.resources import SECRETS

        try:
            return await kube.get(SECRETS, self._namespace, self._name)
        except NotFound:
            return None

    def _keys(self, secret: dict[str, Any] | None) -> KeyDocument:
        try:
            return read(base64.b64decode(((secret or {}).get("data") or {}).get(MEMBER, "")))
        except BadKeys as error:
            raise Failure(f"Secret {self._namespace}/{self._name} has invalid keys: {error}") from error

    def _run(self, work: Callable[[Kube], Awaitable[Result]], verbs: str) -> Result:
        account = f"Use an account that may {verbs} secrets in namespace {self._namespace}."
        return on_cluster(self._kubeconfig, work, rights=account)
