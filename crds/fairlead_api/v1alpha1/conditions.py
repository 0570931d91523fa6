"""The conditions of all kinds: their types and reasons. What each reason means stands in `reasons`.

The operator writes these constants and nothing else. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

Status = Literal["True", "False", "Unknown"]


class ConditionType(StrEnum):
    """Type of a condition. For all of them `True` is the good value; an absent condition means `Unknown`."""

    ACCEPTED = "Accepted"
    """The spec makes sense here: it is valid, its prefix is its own, this installation can run it.

    Set at first sight, before anything is done. LatencyTier and ToolPolicy have this condition alone.
    """
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
    READY = "Ready"
    """All of `Accepted`, `ResolvedRefs`, `Programmed` and `Verified` are True; never set on its own.

    Otherwise it carries status, reason and message of the first of them that is False, else of the first Unknown.
    """


READY_DEPENDS_ON: Final[tuple[ConditionType, ...]] = (
    ConditionType.ACCEPTED,
    ConditionType.RESOLVED_REFS,
    ConditionType.PROGRAMMED,
    ConditionType.VERIFIED,
)
"""In the order in which they are looked at for the reason of `Ready`."""


class Reason(StrEnum):
    """One CamelCase word for why a condition is as it is. Added to over time, never renamed.

    The reasons of failed conversations are those of the wire's error tree: `Reason(error.reason)` is the condition's.
    """

    # Accepted
    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    PREFIX_TAKEN = "PrefixTaken"
    NOT_SUPPORTED_HERE = "NotSupportedHere"
    POD_TEMPLATE_NOT_ALLOWED = "PodTemplateNotAllowed"
    DEFAULT_TAKEN = "DefaultTaken"
    NOTHING_SELECTED = "NothingSelected"
    RULES_MATCH_NOTHING = "RulesMatchNothing"
    CONFLICTED = "Conflicted"
    UNKNOWN_TIER = "UnknownTier"

    # ResolvedRefs
    RESOLVED_REFS = "ResolvedRefs"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a word about secrets
    SECRET_NOT_LABELLED = "SecretNotLabelled"  # noqa: S105 - a word about secrets
    SECRET_KEY_MISSING = "SecretKeyMissing"  # noqa: S105 - a word about secrets
    SECRET_VALUE_INVALID = "SecretValueInvalid"  # noqa: S105 - a word about secrets
    HOST_NOT_ALLOWED = "HostNotAllowed"
    REFS_UNREADABLE = "RefsUnreadable"

    # Programmed
    PROGRAMMED = "Programmed"
    WAITING_FOR_REFS = "WaitingForRefs"
    DEPLOYING = "Deploying"
    INSTALLING = "Installing"
    STOPPED = "Stopped"
    DEPLOYMENT_FAILED = "DeploymentFailed"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CRASH_LOOPING = "CrashLooping"
    RUN_AS_ROOT_REFUSED = "RunAsRootRefused"
    INSTALL_FAILED = "InstallFailed"
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    APPLY_REFUSED = "ApplyRefused"
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
    DEFINITIONS_TOO_LARGE = "DefinitionsTooLarge"
    LISTING_INCOMPLETE = "ListingIncomplete"
    PENDING = "Pending"
    NOT_DISCOVERED = "NotDiscovered"
    UNREACHABLE = "Unreachable"
    ADDRESS_NOT_ALLOWED = "AddressNotAllowed"
    INVALID_URL = "InvalidUrl"
    INVALID_HEADER = "InvalidHeader"
    CONNECTION_REFUSED = "ConnectionRefused"
    UNKNOWN_HOST = "UnknownHost"
    CONNECT_TIMEOUT = "ConnectTimeout"
    TLS_FAILED = "TlsFailed"
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
    BAD_HTTP = "BadHttp"
    NOT_MCP = "NotMcp"
    HTML_INSTEAD_OF_MCP = "HtmlInsteadOfMcp"
    EMPTY_ANSWER = "EmptyAnswer"
    WRONG_ANSWER_ID = "WrongAnswerId"
    BAD_JSON = "BadJson"
    TRUNCATED_JSON = "TruncatedJson"
    PROTOCOL_ERROR = "ProtocolError"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    BAD_LISTING = "BadListing"
    PAGE_LOOP = "PageLoop"
    TOO_MANY_PAGES = "TooManyPages"
    TOO_MANY_ITEMS = "TooManyItems"
    LISTING_TOO_LARGE = "ListingTooLarge"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
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
    HTTP_REFUSED = "HttpRefused"
    RPC_ERROR = "RpcError"
    MCP_ERROR = "McpError"

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


class ReasonExplanation(NamedTuple):
    """Meaning of a reason, and its remedy."""

    status: Status
    """The status that goes with it."""
    meaning: str
    """Sentence about the observation."""
    remedy: str = ""
    """Action that a person takes; empty where all is well."""
