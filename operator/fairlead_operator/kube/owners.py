"""Owner references of all objects that the operator writes into the release's namespace.

Documents, copied credentials and the Lease are not part of the Helm release, so uninstalling the release would leave
them. The operator's ServiceAccount and its Service are part of the release. The garbage collector deletes what they own
when both are gone: an upgrade to a ServiceAccount that somebody else made deletes the release's own, and the served
documents and the keys of the installation must stay. The operator's Deployment is not an owner: when somebody deletes
it, decisions stop, but the served documents must stay too.

Objects of an earlier release lack the Service as an owner until `adopt` has added it.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, NotFound
from fairlead_kube.resources import SERVICES, Kind, Scope

logger = logging.getLogger(__name__)

ADOPTION_PASSES: Final = 3
"""Maximum number of lists for adding owners: there is another only if a client has changed objects meanwhile."""
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


def add_owners(metadata: Json, owners: Sequence[Json]) -> list[Json]:
    """Owner references of an object with those of `owners` that it lacks; empty if it lacks none."""
    references: list[Json] = metadata.get("ownerReferences") or []
    present = {reference["uid"] for reference in references}
    missing = [owner for owner in owners if owner["uid"] not in present]
    return [*references, *missing] if missing else []


async def adopt_object(kube: Kube, kind: Kind, namespace: str, metadata: Json, owners: Sequence[Json]) -> Json | None:
    """Add the owners that an object lacks. Returns the changed object, or None if it lacks none. Raises ApiError: a
    Conflict if another client has changed the object since `metadata` was read.
    """
    references = add_owners(metadata, owners)
    if not references:
        return None
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": references}}
    return await kube.merge(kind, namespace, metadata["name"], patch)


async def adopt(kube: Kube, namespace: str, scopes: Iterable[Scope[Json]], owners: Sequence[Json]) -> None:
    """Add the owners that the objects of `namespace` in `scopes` lack. If the API server refuses, a warning says what
    to grant, and nothing else is changed.
    """
    try:
        for scope in scopes if owners else ():
            for _ in range(ADOPTION_PASSES):
                if not await _adopt_all(kube, namespace, scope, owners):
                    break
    except ApiError as error:
        logger.warning(not_adopted(error))


async def _adopt_all(kube: Kube, namespace: str, scope: Scope[Json], owners: Sequence[Json]) -> bool:
    """Whether other clients have changed objects meanwhile, so that these may lack owners still."""
    adopted, changed = 0, False
    async for metadata in kube.list_metadata(scope):
        try:
            adopted += await adopt_object(kube, scope.kind, namespace, metadata, owners) is not None
        except Conflict:
            changed = True
        except NotFound:
            continue
    if adopted:
        logger.info("added owners to %d %s of an earlier release", adopted, scope.kind.plural)
    return changed


def not_adopted(error: ApiError) -> str:
    """Warning that owners could not be added."""
    return (
        f"owners cannot be added to what an earlier release wrote ({error}), so it is deleted when this release "
        "changes operator.serviceAccount: grant the operator's account `patch` on ConfigMaps and Secrets of its "
        "namespace and `update` on its Lease, and `delete` where the cluster enforces permissions of owner references"
    )
