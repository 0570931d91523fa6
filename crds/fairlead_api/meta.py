"""Names that resources, documents, operator and gateway share: group, labels, annotations, managers, keys.

Pure constants and one value type; imports nothing of ours.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

GROUP: Final = "fairlead.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

MANAGER: Final = "fairlead-operator"
"""Field manager of every server-side apply, and `reportingController` of every Event."""

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "fairlead"
LABEL_DOCUMENT: Final = "fairlead.dev/document"
"""On each ConfigMap that holds a document or a part of one: `catalog`, `state`, `rules` or `pins`."""
LABEL_PART: Final = "fairlead.dev/part"
"""`"true"` on a ConfigMap that holds one part of a document; absent on its head."""
LABEL_NAMESPACE: Final = "fairlead.dev/server-namespace"
LABEL_NAME: Final = "fairlead.dev/server"
LABEL_UID: Final = "fairlead.dev/server-uid"
LABEL_CREDENTIAL: Final = "fairlead.dev/credential"
"""`"true"` on a Secret that an McpServer may refer to; without it the Secret is refused."""

ANNOTATION_HOSTS: Final = "fairlead.dev/hosts"
"""On such a Secret: comma-separated host names that its value may be sent to; absent = any."""
ANNOTATION_APPROVE: Final = "fairlead.dev/approve"
"""On an McpServer with `pin: true`: the hash of the changes that are held back and are to be in force from now on."""
ANNOTATION_RELEASE_PREFIX: Final = "fairlead.dev/release-prefix"
"""Prefixes, separated by commas, that deleted servers of this McpServer's namespace no longer hold."""
ANNOTATION_FORM: Final = "fairlead.dev/form"
"""On a server of `fairlead up`: `client-configuration` where an `mcp.json` declares it, by other names of fields."""
CLIENT_CONFIGURATION: Final = "client-configuration"
ANNOTATION_SHA256: Final = "fairlead.dev/sha256"
ANNOTATION_WITHDRAWN: Final = "fairlead.dev/withdrawn"
"""`"true"` on the head of a document that the operator is about to delete. One that goes without it was deleted by
somebody else, and will be back."""
ANNOTATION_SEEDING: Final = "fairlead.dev/seeding"
"""`"true"` on the first LatencyTier that an operator creates, until it has created the others."""

LABEL_VALUE_LIMIT: Final = 63
NAME_LIMIT: Final = 253


class ServerKey(NamedTuple):
    """Identifies one McpServer. Off a cluster the namespace is `default` unless the manifest names another."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> ServerKey:
        """Read `namespace/name`. Raises ValueError on anything else."""
        namespace, slash, name = text.partition("/")
        if not (slash and namespace and name) or "/" in name:
            raise ValueError(f"{text!r} is not of the form namespace/name")
        return cls(namespace, name)


def short_hash(*parts: str) -> str:
    """Ten hex digits that tell apart what a joined and truncated name could confuse."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def bounded_name(*parts: str, limit: int = NAME_LIMIT) -> str:
    """Join `parts` with hyphens and end in a hash of them, within `limit` characters; stable and collision-free.

    Always hashed: ("a-b", "c") and ("a", "b-c") join to the same text.
    """
    digest = short_hash(*parts)
    stem = "-".join(parts)[: limit - len(digest) - 1].rstrip("-.")
    return f"{stem}-{digest}"


def label_value(text: str) -> str:
    """`text` as a label value: itself where it fits, else truncated with a hash."""
    if len(text) <= LABEL_VALUE_LIMIT:
        return text
    return bounded_name(text, limit=LABEL_VALUE_LIMIT)


def pod_logs(namespace: str = "NAMESPACE", name: str = "NAME") -> str:
    """Command that prints all that the pods of a server printed; with a selector kubectl prints ten lines of each
    container, unless it is told otherwise.
    """
    return f"kubectl logs --namespace {namespace} --selector {LABEL_NAME}={name} --all-containers --prefix --tail=-1"
