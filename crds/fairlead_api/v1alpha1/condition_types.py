"""Conditions of all kinds: their types and reasons. `causes` has the precise causes behind each reason.

The operator only writes these values. This module has no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

Status = Literal["True", "False", "Unknown"]


class ConditionType(StrEnum):
    """Type of a condition. `True` is the good value, and an absent condition means `Unknown`. The types in `ABNORMAL`
    are the opposite: they are present, with the value `True`, only while something is wrong.
    """

    ACCEPTED = "Accepted"
    """The resource is valid and applied, except for what `PARTIALLY_INVALID` and `CONFLICTED` report.

    Set as soon as the operator has read the resource.
    """
    PARTIALLY_INVALID = "PartiallyInvalid"
    """Parts of the spec have no effect; the rest is applied (as in Gateway API). Does not affect `Ready`."""
    CONFLICTED = "Conflicted"
    """Another resource contradicts this resource, or is older and has claimed the same prefix or default. The parts
    that do not conflict are applied. Does not affect `Ready`.
    """
    RESOLVED_REFS = "ResolvedRefs"
    """Every Secret that the spec refers to exists, may be used, and may be sent to the server's host."""
    PROGRAMMED = "Programmed"
    """The server's workload exists as the spec says and runs, as far as the platform can tell.

    This says nothing about MCP. Always True for `url`, because nothing is run.
    """
    VERIFIED = "Verified"
    """The server answered `tools/list` when it was last contacted."""
    AUTHORIZED = "Authorized"
    """Gateways get access tokens for calls of the server, as far as that does not depend on who calls. Only present
    with grants in `spec.auth` (`clientCredentials`, `tokenExchange`).
    """
    CALIBRATED = "Calibrated"
    """The latency of the server's tools has been measured. Does not affect `Ready`."""
    APPROVED = "Approved"
    """The server lists the approved definitions. Only present with `pin: true`. Does not affect `Ready`, because the
    approved definitions are served in any case."""
    DEFINITIONS_CLEAN = "DefinitionsClean"
    """No listed text contains hidden characters or instructions to the model. Does not affect `Ready`."""
    NETWORK_POLICY_ENFORCED = "NetworkPolicyEnforced"
    """The cluster enforces the NetworkPolicies of the server's pods. Only present if the installation probes that. Does
    not affect `Ready`."""
    READY = "Ready"
    """All of `Accepted`, `ResolvedRefs`, `Programmed`, `Authorized` and `Verified`, as far as the resource has them,
    are True.

    Otherwise, `Ready` has the status, reason and message of the first of these conditions that is False, else of the
    first that is Unknown.
    """


READY_DEPENDS_ON: Final[tuple[ConditionType, ...]] = (
    ConditionType.ACCEPTED,
    ConditionType.RESOLVED_REFS,
    ConditionType.PROGRAMMED,
    ConditionType.AUTHORIZED,
    ConditionType.VERIFIED,
)
"""Conditions that `Ready` summarizes, in the order of precedence for its reason."""


ABNORMAL: Final = frozenset({ConditionType.PARTIALLY_INVALID, ConditionType.CONFLICTED})
"""Types whose `True` means a problem."""


class Reason(StrEnum):
    """Next step of a person, as one CamelCase word. There are at most 25 reasons, and they are never renamed."""

    AS_EXPECTED = "AsExpected"
    PENDING = "Pending"
    INVALID = "Invalid"
    NOT_ALLOWED = "NotAllowed"
    CONFLICTED = "Conflicted"
    NOTHING_MATCHED = "NothingMatched"
    INVALID_REF = "InvalidRef"
    REF_NOT_PERMITTED = "RefNotPermitted"
    STOPPED = "Stopped"
    DEPLOYMENT_FAILED = "DeploymentFailed"
    FETCH_FAILED = "FetchFailed"
    START_FAILED = "StartFailed"
    UNREACHABLE = "Unreachable"
    TLS_FAILED = "TLSFailed"
    NOT_MCP = "NotMCP"
    UNAUTHORIZED = "Unauthorized"
    SIGN_IN_REQUIRED = "SignInRequired"
    OVERLOADED = "Overloaded"
    TOO_LARGE = "TooLarge"
    SERVER_FAILED = "ServerFailed"
    VERIFIED_IN_PART = "VerifiedInPart"
    NOT_CALIBRATED = "NotCalibrated"
    CHANGES_HELD_BACK = "ChangesHeldBack"
    SUSPICIOUS_DEFINITIONS = "SuspiciousDefinitions"
    NOT_ENFORCED = "NotEnforced"


ACTIONS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.AS_EXPECTED: "Nothing.",
        Reason.PENDING: "Wait: the step is in progress, or will be tried again.",
        Reason.INVALID: "Correct the resource: a field breaks a rule, or this installation does not support it.",
        Reason.NOT_ALLOWED: "Remove what the message names, or have it allowed in the installation or the cluster.",
        Reason.CONFLICTED: "Change this resource, or the resource that the message names; the older resource wins, "
        "and Deny wins.",
        Reason.NOTHING_MATCHED: "Correct the selector or patterns, or wait for the objects that they are meant for.",
        Reason.INVALID_REF: "Create or correct the object that is referred to, or correct the reference.",
        Reason.REF_NOT_PERMITTED: "If the Secret is meant for this server, set its label and annotation.",
        Reason.STOPPED: "Set replicas to start the server.",
        Reason.DEPLOYMENT_FAILED: "Look at the events of the server's Deployment and pods, and at the resources of "
        "the nodes.",
        Reason.FETCH_FAILED: "Check name and version of the image or package, and the connection to its registry.",
        Reason.START_FAILED: "Read the output of the process; correct its command, arguments or environment.",
        Reason.UNREACHABLE: "Check the address, the port, the network and its policies, and that the server runs.",
        Reason.TLS_FAILED: "Set caBundle, or have the certificate corrected.",
        Reason.NOT_MCP: "Correct path, port, transport or host header: the response is not MCP.",
        Reason.UNAUTHORIZED: "Give the server a credential with the rights it needs.",
        Reason.SIGN_IN_REQUIRED: "Sign in at the server (fairlead login), or call its tool sign_in.",
        Reason.OVERLOADED: "Raise replicas or limits, or make fewer calls.",
        Reason.TOO_LARGE: "Offer fewer or smaller definitions.",
        Reason.SERVER_FAILED: "Read the server's log; update the server.",
        Reason.VERIFIED_IN_PART: "Correct the definitions that the message names in the server; the other "
        "definitions are served.",
        Reason.NOT_CALIBRATED: "Give working probe arguments, or rely on the calls of agents.",
        Reason.CHANGES_HELD_BACK: "Look at the changes (fairlead diff); approve (fairlead approve) or revert them.",
        Reason.SUSPICIOUS_DEFINITIONS: "Read the texts in the message; if harmful, hide the tool or remove the server.",
        Reason.NOT_ENFORCED: "Have the cluster enforce NetworkPolicies, or keep others from running pods in the "
        "cluster.",
    }
)
"""Sentences about the next step of a person, by reason."""
