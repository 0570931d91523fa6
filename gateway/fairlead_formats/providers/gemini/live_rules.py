"""Messages for which Gemini Live closes the connection. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_formats.request_rules.rule import INVALID_ARGUMENT, ApiFamily, ApiRules, RequestRule

_GITHUB: Final = "https://github.com"
_LIVE: Final = "https://ai.google.dev/api/live"
_LIVE_TOOLS: Final = "https://ai.google.dev/gemini-api/docs/live-tools"
_LIVE_SESSIONS: Final = "https://ai.google.dev/gemini-api/docs/live-session"
BAD_ARGUMENT: Final = 1007
UNSUPPORTED: Final = 1008
INTERNAL: Final = 1011


def _rule(name: str, rejects: str, message: str, source: str, status: int = BAD_ARGUMENT) -> RequestRule:
    return RequestRule(f"live-{name}", ApiFamily.LIVE, rejects, message, source, type=INVALID_ARGUMENT, status=status)


_RULES: Final = (
    _rule("setup", "a first message other than `setup`", "the first message must be setup", _LIVE),
    _rule(
        "model",
        "a model that the Live API does not have",
        "{model} is not supported for bidiGenerateContent",
        _LIVE,
        UNSUPPORTED,
    ),
    _rule(
        "member",
        "a message that the API does not define",
        "Invalid JSON payload received. Unknown name {name!r}",
        _LIVE,
    ),
    _rule(
        "function",
        "a function with a member that the API does not define, with a name that Gemini does not accept for functions, "
        "or with the name of another function",
        "bad function declaration {name!r} {unknown}",
        "google.genai.types.FunctionDeclaration",
    ),
    _rule(
        "behavior",
        "a `behavior` that the model's calls cannot have",
        "behavior is not supported for this model",
        _LIVE_TOOLS,
    ),
    _rule(
        "context-update",
        "`contextUpdate` for models before 3.8",
        "contextUpdate is not supported for this model",
        "google.genai.types.LiveClientMessage.context_update",
        UNSUPPORTED,
    ),
    _rule(
        "content-late",
        "`clientContent` to a 3.1 model after its first answer",
        "Request contains an invalid argument.",
        f"{_GITHUB}/livekit/agents/issues/5496",
    ),
    _rule(
        "activity",
        "`activityStart` or `activityEnd` while the server detects activity",
        "Explicit activity control is not supported when automatic activity detection is enabled.",
        f"{_LIVE}#ActivityStart",
    ),
    _rule(
        "response-without-call",
        "a function response without a call that waits for it, or whose `response` is not an object",
        "no call {id!r} waits for a response",
        f"{_GITHUB}/livekit/agents/issues/6569",
    ),
    _rule(
        "handle",
        "a handle that the API did not issue",
        "unknown session handle",
        _LIVE_SESSIONS,
    ),
    _rule(
        "handle-open",
        "a handle of a session whose connection is open",
        "the session is open over another connection",
        f"{_GITHUB}/aicc2025/sip-to-ai/issues/14",
        INTERNAL,
    ),
)
LIVE_RULES: Final = ApiRules("live", _RULES)
