"""The conditions of all kinds: their types and reasons. The exact causes behind a reason stand in `causes`.

The operator writes these constants and nothing else. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

Status = Literal["True", "False", "Unknown"]


class ConditionType(StrEnum):
    """Type of a condition. `True` is the good value, and an absent condition means `Unknown`; but for those of
    `ABNORMAL`, which are there, and `True`, only while something is amiss.
    """

    ACCEPTED = "Accepted"
    """The resource is valid and in force here, as far as `PARTIALLY_INVALID` and `CONFLICTED` do not say otherwise.

    Set at first sight, before anything is done.
    """
    PARTIALLY_INVALID = "PartiallyInvalid"
    """Parts of the spec have no effect; all else is in force (as in Gateway API). Does not count for `Ready`."""
    CONFLICTED = "Conflicted"
    """Another resource says otherwise or was there before, and the rest is in force. Does not count for `Ready`."""
    RESOLVED_REFS = "ResolvedRefs"
    """Every Secret that the spec refers to exists, may be used, and may be sent to the server's host."""
    PROGRAMMED = "Programmed"
    """The server's workload exists as the spec wants it and runs, as far as the platform can tell.

    It says nothing about MCP. True at once for `url`, where nothing is run.
    """
    VERIFIED = "Verified"
    """The server itself answered a real `tools/list`, and still does."""
    CALIBRATED = "Calibrated"
    """Its tools have been measured. Does not count for `Ready`."""
    APPROVED = "Approved"
    """The server lists the definitions that were approved; with `pin: true` only. Does not count for `Ready`: the
    approved definitions are served meanwhile."""
    DEFINITIONS_CLEAN = "DefinitionsClean"
    """Nothing is hidden in what the server lists, and nothing in it speaks to the model. Does not count for `Ready`."""
    NETWORK_POLICY_ENFORCED = "NetworkPolicyEnforced"
    """The cluster enforces the NetworkPolicies of the server's pods; only where the installation probes that. Does not
    count for `Ready`."""
    READY = "Ready"
    """All of `Accepted`, `ResolvedRefs`, `Programmed` and `Verified` that the kind has are True; never set on its own.

    Otherwise it carries status, reason and message of the first of them that is False, else of the first Unknown.
    """


READY_DEPENDS_ON: Final[tuple[ConditionType, ...]] = (
    ConditionType.ACCEPTED,
    ConditionType.RESOLVED_REFS,
    ConditionType.PROGRAMMED,
    ConditionType.VERIFIED,
)
"""In the order in which they are looked at for the reason of `Ready`."""


ABNORMAL: Final = frozenset({ConditionType.PARTIALLY_INVALID, ConditionType.CONFLICTED})
"""Types whose `True` is bad."""


class Reason(StrEnum):
    """One CamelCase word for what a person does about a condition. At most 25; never renamed."""

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
        Reason.PENDING: "Wait: it is on its way, or tried again by itself.",
        Reason.INVALID: "Correct the resource: a field breaks a rule, or this installation cannot do what it says.",
        Reason.NOT_ALLOWED: "Do without what the message names, or have it allowed in the installation or cluster.",
        Reason.CONFLICTED: "Change this resource or the one that the message names; the older one, and denial, win.",
        Reason.NOTHING_MATCHED: "Correct selector or patterns, or wait for what they are meant for.",
        Reason.INVALID_REF: "Create or correct what is referred to, or the reference.",
        Reason.REF_NOT_PERMITTED: "If the Secret is meant for this server, say so by its label and annotation.",
        Reason.STOPPED: "Set replicas to start it.",
        Reason.DEPLOYMENT_FAILED: "Look at the events of its Deployment and pods, and at the room on the nodes.",
        Reason.FETCH_FAILED: "Check name and version of image or package, and the way to its registry.",
        Reason.START_FAILED: "Read what the process printed; correct its command, arguments or environment.",
        Reason.UNREACHABLE: "Check address and port, that the server runs, and network and policies on the way.",
        Reason.TLS_FAILED: "Set the authority, or have the certificate mended.",
        Reason.NOT_MCP: "Correct path, port, transport or host header: what answers there is not MCP for this address.",
        Reason.UNAUTHORIZED: "Give it a credential with the rights it needs.",
        Reason.OVERLOADED: "Raise replicas or limits, or call it less.",
        Reason.TOO_LARGE: "Offer fewer or smaller definitions.",
        Reason.SERVER_FAILED: "Read the server's log; update the server.",
        Reason.VERIFIED_IN_PART: "Mend the definitions that the message names, in the server; the others are served.",
        Reason.NOT_CALIBRATED: "Give probe arguments that work, or leave it at the calls of agents.",
        Reason.CHANGES_HELD_BACK: "Look at them (fairlead diff); approve them (fairlead approve) or have them undone.",
        Reason.SUSPICIOUS_DEFINITIONS: "Read the texts that it names; if harmful, hide the tool or remove the server.",
        Reason.NOT_ENFORCED: "Have the cluster enforce NetworkPolicies, or keep others from running pods in it.",
    }
)
"""The next step of a person, by reason."""
