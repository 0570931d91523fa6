"""ServiceAccount of the operator, as the owner of all objects that it writes into the release's namespace.

Documents, copied credentials and the Lease are not part of a Helm release, and nothing would remove them when it is
uninstalled; owned by an account that is part of it, they go with it, by the garbage collector. The account and no
Deployment: deleting the operator's Deployment stops decisions, and the served documents must stay; without its account
the operator could not write anyway.
"""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Final

import msgspec

from fairlead_kube.client import Json

logger = logging.getLogger(__name__)

_CLAIM: Final = "kubernetes.io"


class _Account(msgspec.Struct):
    name: str
    uid: str


class _Kubernetes(msgspec.Struct):
    namespace: str
    serviceaccount: _Account


class _Claims(msgspec.Struct):
    kubernetes: _Kubernetes = msgspec.field(name=_CLAIM)


def owners(token: str, namespace: str) -> list[Json]:
    """`ownerReferences` for objects of `namespace`: the account whose token stands in the file `token`, of which name
    and uid are read (the API server says them in each token that it mounts into a pod).

    Empty, with a warning, where the file has no such token, or one of another namespace: an owner elsewhere would have
    the objects collected at once. Empty without a path too.
    """
    if not token:
        return []
    try:
        payload = Path(token).read_text().split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
    except (OSError, IndexError, ValueError, msgspec.DecodeError) as error:
        logger.warning("%s names no account (%s): documents will outlive the release", token, error)
        return []
    claim = claims.kubernetes
    if claim.namespace != namespace:
        logger.warning(
            "%s is of namespace %s, and documents are in %s: they will outlive the release",
            token,
            claim.namespace,
            namespace,
        )
        return []
    account = claim.serviceaccount
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "name": account.name, "uid": account.uid}]
