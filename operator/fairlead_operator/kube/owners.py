"""Owner references of all objects that the operator writes into the release's namespace.

Documents, copied credentials and the Lease are not part of the Helm release, so uninstalling the release would leave
them. The operator's ServiceAccount and its Service are part of the release. The garbage collector deletes what they own
when both are gone: an upgrade to a ServiceAccount that somebody else made deletes the release's own, and the served
documents and the keys of the installation must stay. The operator's Deployment is not an owner: when somebody deletes
it, decisions stop, but the served documents must stay too.
"""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Final

import msgspec

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.resources import SERVICES

logger = logging.getLogger(__name__)

_CLAIM: Final = "kubernetes.io"


class _Account(msgspec.Struct):
    name: str
    uid: str


class _Kubernetes(msgspec.Struct):
    """The claim `kubernetes.io` of a ServiceAccount token."""

    namespace: str
    serviceaccount: _Account


class _Claims(msgspec.Struct):
    kubernetes: _Kubernetes = msgspec.field(name=_CLAIM)


def account_references(token_path: str, namespace: str) -> list[Json]:
    """`ownerReferences` for objects in `namespace`: the ServiceAccount whose token is in the file `token_path`.

    Each token that Kubernetes mounts into a pod contains the account's name and UID. The list is empty without a path.
    The list is also empty, with a warning, if the file has no such token, or if the account is in another namespace:
    the garbage collector would at once delete objects with an owner in another namespace.
    """
    if not token_path:
        return []
    try:
        payload = Path(token_path).read_text().split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
    except (OSError, IndexError, ValueError, msgspec.DecodeError) as error:
        logger.warning(
            "the file %s has no ServiceAccount token (%s): uninstalling the Helm release will not delete the published "
            "documents",
            token_path,
            error,
        )
        return []
    claim = claims.kubernetes
    if claim.namespace != namespace:
        logger.warning(
            "the token %s is of a ServiceAccount in namespace %s, but documents are published to namespace %s: "
            "uninstalling the Helm release will not delete them",
            token_path,
            claim.namespace,
            namespace,
        )
        return []
    account = claim.serviceaccount
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "name": account.name, "uid": account.uid}]


async def service_references(kube: Kube, namespace: str, name: str) -> list[Json]:
    """`ownerReferences` for objects in `namespace`: the Service `name`. The list is empty without a name, and, with a
    warning, if the Service cannot be read.
    """
    if not name:
        return []
    try:
        metadata = await kube.metadata(SERVICES, namespace, name)
    except ApiError as error:
        logger.warning(
            "the Service %s of this release cannot be read (%s): what the operator publishes is deleted when the "
            "release changes operator.serviceAccount, or stays when the release is uninstalled; to prevent this, grant "
            "the operator's account `get` on the Service",
            name,
            error,
        )
        return []
    return [{"apiVersion": "v1", "kind": SERVICES.kind, "name": name, "uid": metadata["uid"]}]
