"""Causes: the precise observations behind the reasons of conditions, and how a condition's message carries them.

A reason says what a person should do next, and a cause says what was observed: for example, the reason `Unreachable`
has the cause `ConnectionRefused`. The message of a condition begins with the cause if the cause differs from the
reason, except with the reason `AsExpected`, whose cause follows from the type of the condition. The label `cause` of
`fairlead_operator_servers_ready` has the cause too. The module `reasons` has the meaning of each cause. This module has
no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead_api.v1alpha1.condition_types import ConditionType, Reason, Status

if TYPE_CHECKING:
    from fairlead_api.v1alpha1.common import Condition  # importing its models takes 20 ms


class Cause(StrEnum):
    """An observation as one CamelCase word. Members may be added, but not renamed.

    The reasons of connection errors (`fairlead_mcp`'s error tree) are causes: `Cause(error.reason)`.
    """

    # Accepted
    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    NOT_SUPPORTED_HERE = "NotSupportedHere"
    POD_TEMPLATE_NOT_ALLOWED = "PodTemplateNotAllowed"

    # PartiallyInvalid
    RULE_INVALID = "RuleInvalid"
    UNKNOWN_KEYWORD = "UnknownKeyword"
    UNKNOWN_TIER = "UnknownTier"
    UNKNOWN_TOOL = "UnknownTool"
    PODS_MISSING = "PodsMissing"
    UNKNOWN_SECURITY_SCHEME = "UnknownSecurityScheme"
    DEFAULT_BEYOND_MAX = "DefaultBeyondMax"
    NOTHING_SELECTED = "NothingSelected"
    PATTERNS_MATCH_NOTHING = "PatternsMatchNothing"
    HINTS_NOT_TRUSTED = "HintsNotTrusted"
    RULES_MATCH_NOTHING = "RulesMatchNothing"
    PINS_MATCH_NOTHING = "PinsMatchNothing"

    # Conflicted
    PREFIX_TAKEN = "PrefixTaken"
    PREFIX_RESERVED = "PrefixReserved"
    DEFAULT_TAKEN = "DefaultTaken"
    CONFLICTED = "Conflicted"
    WRITES_UNDONE = "WritesUndone"

    # ResolvedRefs
    RESOLVED_REFS = "ResolvedRefs"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a word about secrets
    SECRET_NOT_LABELLED = "SecretNotLabelled"  # noqa: S105 - a word about secrets
    SECRET_KEY_MISSING = "SecretKeyMissing"  # noqa: S105 - a word about secrets
    SECRET_VALUE_INVALID = "SecretValueInvalid"  # noqa: S105 - a word about secrets
    VARIABLE_NOT_SET = "VariableNotSet"
    HOST_NOT_ALLOWED = "HostNotAllowed"
    REFS_UNREADABLE = "RefsUnreadable"
    SECRET_BEING_READ = "SecretBeingRead"  # noqa: S105 - a word about secrets
    SECRETS_NOT_READABLE = "SecretsNotReadable"

    # Programmed
    PROGRAMMED = "Programmed"
    WAITING_FOR_REFS = "WaitingForRefs"
    DEPLOYING = "Deploying"
    PROBE_FAILED = "ProbeFailed"
    POD_WARNING = "PodWarning"
    INSTALLING = "Installing"
    STOPPED = "Stopped"
    DEPLOYMENT_FAILED = "DeploymentFailed"
    UNSCHEDULABLE = "Unschedulable"
    VOLUME_UNAVAILABLE = "VolumeUnavailable"
    NODES_EXCLUDED = "NodesExcluded"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CRASH_LOOPING = "CrashLooping"
    RUN_AS_ROOT_REFUSED = "RunAsRootRefused"
    INSTALL_FAILED = "InstallFailed"
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    APPLY_REFUSED = "ApplyRefused"
    NAME_TAKEN = "NameTaken"
    APPLY_FAILED = "ApplyFailed"

    # Programmed or Verified: starting a process
    START_FAILED = "StartFailed"
    START_TIMEOUT = "StartTimeout"
    COMMAND_NOT_FOUND = "CommandNotFound"
    BACKING_OFF = "BackingOff"
    SILENT = "Silent"

    # Verified
    VERIFIED = "Verified"
    VERIFIED_IN_PART = "VerifiedInPart"
    DUPLICATE_NAMES = "DuplicateNames"
    INVALID_NAMES = "InvalidNames"
    UNUSUAL_NAMES = "UnusualNames"
    INVALID_SCHEMAS = "InvalidSchemas"
    INVALID_DEFINITIONS = "InvalidDefinitions"
    MENDED_DEFINITIONS = "MendedDefinitions"
    DEFINITIONS_TOO_LARGE = "DefinitionsTooLarge"
    INVALID_SHAPES = "InvalidShapes"
    LISTING_INCOMPLETE = "ListingIncomplete"
    MENDED_ANSWERS = "MendedAnswers"
    OPERATIONS_LEFT_OUT = "OperationsLeftOut"
    DOCUMENT_UNUSABLE = "DocumentUnusable"
    PENDING = "Pending"
    BEING_REPLACED = "BeingReplaced"
    NOT_DISCOVERED = "NotDiscovered"
    UNREACHABLE = "Unreachable"
    ADDRESS_NOT_ALLOWED = "AddressNotAllowed"
    INVALID_URL = "InvalidURL"
    INVALID_HEADER = "InvalidHeader"
    CONNECTION_REFUSED = "ConnectionRefused"
    UNKNOWN_HOST = "UnknownHost"
    CONNECT_TIMEOUT = "ConnectTimeout"
    TLS_FAILED = "TLSFailed"
    CONNECTION_LOST = "ConnectionLost"
    CLOSED_MID_ANSWER = "ClosedMidAnswer"
    PROCESS_EXITED = "ProcessExited"
    CLOSED = "Closed"
    TIMEOUT = "Timeout"
    QUEUE_TIMEOUT = "QueueTimeout"
    POOL_FULL = "PoolFull"
    TOO_MANY_PROCESSES = "TooManyProcesses"
    TRANSPORT_ERROR = "TransportError"
    ANSWER_TOO_LARGE = "AnswerTooLarge"
    HEADERS_TOO_LARGE = "HeadersTooLarge"
    BAD_HTTP = "BadHTTP"
    NOT_MCP = "NotMCP"
    HTML_INSTEAD_OF_MCP = "HTMLInsteadOfMCP"
    EMPTY_ANSWER = "EmptyAnswer"
    WRONG_ANSWER_ID = "WrongAnswerID"
    BAD_JSON = "BadJSON"
    TRUNCATED_JSON = "TruncatedJSON"
    PROTOCOL_ERROR = "ProtocolError"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    BAD_LISTING = "BadListing"
    TOO_MANY_PAGES = "TooManyPages"
    TOO_MANY_ITEMS = "TooManyItems"
    LISTING_TOO_LARGE = "ListingTooLarge"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    GRANT_FAILED = "GrantFailed"
    LISTS_NEED_CREDENTIAL = "ListsNeedCredential"
    SIGN_IN_REQUIRED = "SignInRequired"
    ISSUER_UNREACHABLE = "IssuerUnreachable"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    NOT_ACCEPTABLE = "NotAcceptable"
    REQUEST_TOO_LARGE = "RequestTooLarge"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    MISDIRECTED_REQUEST = "MisdirectedRequest"
    TOO_MANY_REQUESTS = "TooManyRequests"
    LOOP_DETECTED = "LoopDetected"
    REDIRECTED = "Redirected"
    SERVER_ERROR = "ServerError"
    HTTP_REFUSED = "HTTPRefused"
    RPC_ERROR = "RPCError"
    MCP_ERROR = "MCPError"

    # Authorized
    AUTHORIZED = "Authorized"
    CALLS_NOT_GRANTED = "CallsNotGranted"
    CALLS_ISSUER_UNREACHABLE = "CallsIssuerUnreachable"

    # Calibrated
    CALIBRATED = "Calibrated"
    NOT_CALIBRATED = "NotCalibrated"
    CALIBRATION_DISABLED = "CalibrationDisabled"
    NOTHING_TO_PROBE = "NothingToProbe"
    PROBES_FAILED = "ProbesFailed"

    # Approved
    APPROVED = "Approved"
    CHANGES_HELD_BACK = "ChangesHeldBack"

    # DefinitionsClean
    DEFINITIONS_CLEAN = "DefinitionsClean"
    HIDDEN_CHARACTERS = "HiddenCharacters"
    SPEAKS_TO_THE_MODEL = "SpeaksToTheModel"
    SUSPICIOUS_DEFINITIONS = "SuspiciousDefinitions"

    # NetworkPolicyEnforced
    NETWORK_POLICY_ENFORCED = "NetworkPolicyEnforced"
    NETWORK_POLICY_NOT_ENFORCED = "NetworkPolicyNotEnforced"
    NETWORK_POLICY_NOT_PROBED = "NetworkPolicyNotProbed"


class CauseExplanation(NamedTuple):
    """Meaning of a cause, and its remedy."""

    status: Status
    """The status of the condition."""
    meaning: str
    """Sentence about the observation."""
    remedy: str = ""
    """Action that a person should take; empty if nothing is wrong."""


CAUSES: Final[Mapping[Reason, tuple[Cause, ...]]] = MappingProxyType(
    {
        Reason.AS_EXPECTED: (
            Cause.ACCEPTED,
            Cause.RESOLVED_REFS,
            Cause.PROGRAMMED,
            Cause.VERIFIED,
            Cause.AUTHORIZED,
            Cause.CALIBRATED,
            Cause.APPROVED,
            Cause.DEFINITIONS_CLEAN,
            Cause.NETWORK_POLICY_ENFORCED,
        ),
        Reason.PENDING: (
            Cause.PENDING,
            Cause.REFS_UNREADABLE,
            Cause.SECRET_BEING_READ,
            Cause.APPLY_FAILED,
            Cause.WAITING_FOR_REFS,
            Cause.DEPLOYING,
            Cause.INSTALLING,
            Cause.PROBE_FAILED,
            Cause.POD_WARNING,
            Cause.BEING_REPLACED,
            Cause.NOT_DISCOVERED,
            Cause.SILENT,
            Cause.NOT_CALIBRATED,
            Cause.CLOSED,
            Cause.NETWORK_POLICY_NOT_PROBED,
        ),
        Reason.INVALID: (
            Cause.INVALID,
            Cause.RULE_INVALID,
            Cause.UNKNOWN_KEYWORD,
            Cause.DEFAULT_BEYOND_MAX,
            Cause.HINTS_NOT_TRUSTED,
            Cause.NOT_SUPPORTED_HERE,
            Cause.INVALID_URL,
            Cause.INVALID_HEADER,
            Cause.LOOP_DETECTED,
            Cause.REDIRECTED,
        ),
        Reason.NOT_ALLOWED: (
            Cause.POD_TEMPLATE_NOT_ALLOWED,
            Cause.ADDRESS_NOT_ALLOWED,
            Cause.APPLY_REFUSED,
            Cause.NAME_TAKEN,
            Cause.RUN_AS_ROOT_REFUSED,
            Cause.SECRETS_NOT_READABLE,
        ),
        Reason.CONFLICTED: (
            Cause.PREFIX_TAKEN,
            Cause.PREFIX_RESERVED,
            Cause.DEFAULT_TAKEN,
            Cause.CONFLICTED,
            Cause.WRITES_UNDONE,
        ),
        Reason.NOTHING_MATCHED: (
            Cause.NOTHING_SELECTED,
            Cause.PATTERNS_MATCH_NOTHING,
            Cause.RULES_MATCH_NOTHING,
            Cause.PINS_MATCH_NOTHING,
        ),
        Reason.INVALID_REF: (
            Cause.UNKNOWN_TIER,
            Cause.UNKNOWN_TOOL,
            Cause.UNKNOWN_SECURITY_SCHEME,
            Cause.SECRET_NOT_FOUND,
            Cause.SECRET_KEY_MISSING,
            Cause.SECRET_VALUE_INVALID,
            Cause.VARIABLE_NOT_SET,
        ),
        Reason.REF_NOT_PERMITTED: (Cause.SECRET_NOT_LABELLED, Cause.HOST_NOT_ALLOWED),
        Reason.STOPPED: (Cause.STOPPED,),
        Reason.DEPLOYMENT_FAILED: (
            Cause.DEPLOYMENT_FAILED,
            Cause.PODS_MISSING,
            Cause.UNSCHEDULABLE,
            Cause.VOLUME_UNAVAILABLE,
            Cause.NODES_EXCLUDED,
        ),
        Reason.FETCH_FAILED: (Cause.IMAGE_PULL_FAILED, Cause.INSTALL_FAILED, Cause.REGISTRY_UNREACHABLE),
        Reason.START_FAILED: (
            Cause.START_FAILED,
            Cause.START_TIMEOUT,
            Cause.COMMAND_NOT_FOUND,
            Cause.BACKING_OFF,
            Cause.CRASH_LOOPING,
            Cause.PROCESS_EXITED,
        ),
        Reason.UNREACHABLE: (
            Cause.UNREACHABLE,
            Cause.CONNECTION_REFUSED,
            Cause.UNKNOWN_HOST,
            Cause.CONNECT_TIMEOUT,
            Cause.CONNECTION_LOST,
            Cause.TRANSPORT_ERROR,
            Cause.ISSUER_UNREACHABLE,
            Cause.CALLS_ISSUER_UNREACHABLE,
        ),
        Reason.TLS_FAILED: (Cause.TLS_FAILED,),
        Reason.NOT_MCP: (
            Cause.NOT_MCP,
            Cause.HTML_INSTEAD_OF_MCP,
            Cause.EMPTY_ANSWER,
            Cause.BAD_HTTP,
            Cause.NOT_FOUND,
            Cause.METHOD_NOT_ALLOWED,
            Cause.NOT_ACCEPTABLE,
            Cause.UNSUPPORTED_MEDIA_TYPE,
            Cause.MISDIRECTED_REQUEST,
        ),
        Reason.UNAUTHORIZED: (
            Cause.UNAUTHORIZED,
            Cause.FORBIDDEN,
            Cause.GRANT_FAILED,
            Cause.LISTS_NEED_CREDENTIAL,
            Cause.CALLS_NOT_GRANTED,
        ),
        Reason.SIGN_IN_REQUIRED: (Cause.SIGN_IN_REQUIRED,),
        Reason.OVERLOADED: (
            Cause.QUEUE_TIMEOUT,
            Cause.POOL_FULL,
            Cause.TOO_MANY_PROCESSES,
            Cause.TOO_MANY_REQUESTS,
        ),
        Reason.TOO_LARGE: (
            Cause.ANSWER_TOO_LARGE,
            Cause.HEADERS_TOO_LARGE,
            Cause.TOO_MANY_PAGES,
            Cause.TOO_MANY_ITEMS,
            Cause.LISTING_TOO_LARGE,
            Cause.REQUEST_TOO_LARGE,
        ),
        Reason.SERVER_FAILED: (
            Cause.SERVER_ERROR,
            Cause.TIMEOUT,
            Cause.CLOSED_MID_ANSWER,
            Cause.HTTP_REFUSED,
            Cause.RPC_ERROR,
            Cause.MCP_ERROR,
            Cause.PROTOCOL_ERROR,
            Cause.UNSUPPORTED_VERSION,
            Cause.WRONG_ANSWER_ID,
            Cause.BAD_JSON,
            Cause.TRUNCATED_JSON,
            Cause.BAD_LISTING,
            Cause.DOCUMENT_UNUSABLE,
        ),
        Reason.VERIFIED_IN_PART: (
            Cause.VERIFIED_IN_PART,
            Cause.DUPLICATE_NAMES,
            Cause.INVALID_NAMES,
            Cause.UNUSUAL_NAMES,
            Cause.INVALID_SCHEMAS,
            Cause.INVALID_DEFINITIONS,
            Cause.MENDED_DEFINITIONS,
            Cause.DEFINITIONS_TOO_LARGE,
            Cause.INVALID_SHAPES,
            Cause.LISTING_INCOMPLETE,
            Cause.MENDED_ANSWERS,
            Cause.OPERATIONS_LEFT_OUT,
        ),
        Reason.NOT_CALIBRATED: (Cause.CALIBRATION_DISABLED, Cause.NOTHING_TO_PROBE, Cause.PROBES_FAILED),
        Reason.CHANGES_HELD_BACK: (Cause.CHANGES_HELD_BACK,),
        Reason.SUSPICIOUS_DEFINITIONS: (
            Cause.SUSPICIOUS_DEFINITIONS,
            Cause.HIDDEN_CHARACTERS,
            Cause.SPEAKS_TO_THE_MODEL,
        ),
        Reason.NOT_ENFORCED: (Cause.NETWORK_POLICY_NOT_ENFORCED,),
    }
)
"""Causes of each reason."""
REASON_OF: Final[Mapping[Cause, Reason]] = MappingProxyType(
    {cause: reason for reason, causes in CAUSES.items() for cause in causes}
)
_VALUES: Final = frozenset(Cause)
_AS_EXPECTED: Final[Mapping[str, Cause]] = MappingProxyType(
    {word: Cause(word) for word in map(str, ConditionType) if word in _VALUES}
)
"""Cause that is reported while everything is as expected, by type of the condition."""


def sentence(cause: Cause, message: str) -> str:
    """The message of a condition. It begins with the cause if the cause says more than the reason."""
    reason = REASON_OF[cause]
    if reason is Reason.AS_EXPECTED or cause.value == reason.value:
        return message
    return f"{cause}: {message}"


def cause_of(condition: Condition) -> tuple[Cause | None, str]:
    """The cause in a condition, and the message without the cause. The cause is None if it is unknown, because another
    release wrote it."""
    word, colon, rest = condition.message.partition(": ")
    if colon and word in _VALUES and REASON_OF[Cause(word)] == condition.reason:
        return Cause(word), rest
    if condition.reason == Reason.AS_EXPECTED:
        return _AS_EXPECTED.get(condition.type, Cause.VERIFIED), condition.message
    is_cause = condition.reason in _VALUES and REASON_OF[Cause(condition.reason)] == condition.reason
    return Cause(condition.reason) if is_cause else None, condition.message
