"""Guards of calls that are requests of an HTTP API: see `guards`."""

from __future__ import annotations

from product_guard import AT, Guard

_REQUESTS = "fairlead_openapi.calling.requests"
_CALLS = f"{AT}/test_openapi_calls.py"

APIS = (
    Guard(
        "a path of an API that an argument leads out of its segment",
        _REQUESTS,
        (
            ("if any(_is_dots(segment) for segment in _SEPARATORS.split(seen)):", "if False:"),
            ("if _is_dots(unquote(made)):", "if False:"),
        ),
        f"{_CALLS}::test_an_argument_cannot_leave_its_segment_of_the_path",
        "KeyError: 'isError'",
    ),
    Guard(
        "a header of a request to an API, inside of an argument",
        "fairlead_mcp.http.target",
        (("    if not _VALUE.fullmatch(raw):\n", "    if False:\n"),),
        f"{_CALLS}::test_an_argument_cannot_add_a_header_or_replace_the_credential",
        "assert",
    ),
    Guard(
        "a credential of an API, replaced by an argument of its name",
        _REQUESTS,
        (("if parameter.name not in credential.query:", "if True:"),),
        f"{_CALLS}::test_an_argument_cannot_add_a_header_or_replace_the_credential",
        "secret=mine",
    ),
    Guard(
        "a credential of an API, for another origin that its document names",
        "fairlead_gateway.upstream.openapi",
        (
            (
                "credential_for(operation, self._access.credential) if own else _NOTHING",
                "credential_for(operation, self._access.credential)",
            ),
        ),
        f"{_CALLS}::test_redirects_and_other_origins_do_not_get_the_credential",
        "hush",
    ),
    Guard(
        "an answer of an API that makes a result beyond the limit",
        "fairlead_gateway.upstream.api_origin",
        (("if max(self._size, len(bytes(result))) > self.max_bytes:", "if False:"),),
        f"{_CALLS}::test_an_answer_beyond_the_limit_is_refused",
        "assert",
    ),
)
