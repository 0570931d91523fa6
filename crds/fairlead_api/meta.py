"""Names that resources, documents, operator and gateway share: API group, labels, annotations, field managers, keys.

Has no I/O, and imports no other module of Fairlead.
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
"""Label of each ConfigMap of a document: the kind, such as `catalog`, `state`, `rules` or `pins`."""
LABEL_PART: Final = "fairlead.dev/part"
"""`"true"` on a ConfigMap with one part of a document; absent on the document's head."""
LABEL_NAMESPACE: Final = "fairlead.dev/server-namespace"
LABEL_NAME: Final = "fairlead.dev/server"
LABEL_UID: Final = "fairlead.dev/server-uid"
LABEL_CREDENTIAL: Final = "fairlead.dev/credential"
"""`"true"` on a Secret that McpServers may refer to; references to other Secrets are rejected."""

ANNOTATION_HOSTS: Final = "fairlead.dev/hosts"
"""On a Secret with `LABEL_CREDENTIAL`: comma-separated hosts to which its values may be sent. Absent: any host."""
ANNOTATION_APPROVE: Final = "fairlead.dev/approve"
"""On an McpServer with `pin: true`: hash of the held-back definitions that are approved."""
ANNOTATION_RELEASE_PREFIX: Final = "fairlead.dev/release-prefix"
"""On an McpServer: comma-separated prefixes that are reserved for deleted servers of its namespace. Their reservation
ends."""
ANNOTATION_FORM: Final = "fairlead.dev/form"
"""On a server of `fairlead up`: `client-configuration` if an `mcp.json` declares it, with that file's keys;
`litellm` for the proxy of `--litellm`."""
CLIENT_CONFIGURATION: Final = "client-configuration"
LITELLM: Final = "litellm"
ANNOTATION_SHA256: Final = "fairlead.dev/sha256"
ANNOTATION_WITHDRAWN: Final = "fairlead.dev/withdrawn"
"""`"true"` on the head of a document that the operator is about to delete. A head that disappears without this
annotation was deleted by somebody else, and the operator will write it again.
"""
ANNOTATION_SEEDING: Final = "fairlead.dev/seeding"
"""`"true"` on the first LatencyTier that an operator creates, until the operator has created the other tiers."""

LABEL_VALUE_LIMIT: Final = 63
NAME_LIMIT: Final = 253


class ServerKey(NamedTuple):
    """Key of one McpServer. Outside of a cluster, the namespace is `default` unless the manifest names another."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> ServerKey:
        """Parse `namespace/name`. Raises ValueError for any other form."""
        namespace, slash, name = text.partition("/")
        if not (slash and namespace and name) or "/" in name:
            raise ValueError(f"{text!r} must have the form namespace/name")
        return cls(namespace, name)


def short_hash(*parts: str) -> str:
    """Hash of ten hex digits, which distinguishes names that are equal after joining or truncating."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def bounded_name(*parts: str, limit: int = NAME_LIMIT) -> str:
    """Join `parts` with hyphens, and append a hash of them. The name has at most `limit` characters, and is stable and
    unique.

    The hash is never omitted: ("a-b", "c") and ("a", "b-c") join to the same text.
    """
    digest = short_hash(*parts)
    stem = "-".join(parts)[: limit - len(digest) - 1].rstrip("-.")
    return f"{stem}-{digest}"


def label_value(text: str) -> str:
    """Convert `text` to a label value; a text that is too long is truncated, and ends in a hash."""
    if len(text) <= LABEL_VALUE_LIMIT:
        return text
    return bounded_name(text, limit=LABEL_VALUE_LIMIT)


def pod_logs(namespace: str = "NAMESPACE", name: str = "NAME") -> str:
    """Command that prints the complete logs of a server's pods. Without `--tail`, a kubectl command with a selector
    prints only the last ten lines of each container.
    """
    return f"kubectl logs --namespace {namespace} --selector {LABEL_NAME}={name} --all-containers --prefix --tail=-1"
