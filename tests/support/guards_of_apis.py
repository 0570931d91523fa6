"""Guards of calls that are requests of an HTTP API: see `guards`."""

from __future__ import annotations

from product_guard import AT, Guard

_REQUESTS = "fairlead_openapi.calling.requests"
_CALLS = f"{AT}/test_openapi_calls.py"
_SECRETS = f"{AT}/test_openapi_secrets.py"

APIS = (
    Guard(
        "a path of an API that an argument leads out of its segment",
        _REQUESTS,
        (
            ("if any(_is_dots(segment) for segment in _SEPARATORS.split(reading)):", "if False:"),
            ("if _is_dots(unquote(encoded_segment)):", "if False:"),
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
        (('[pair for pair in pairs if pair.partition("=")[0] not in names]', "pairs"),),
        f"{_CALLS}::test_an_argument_cannot_add_a_header_or_replace_the_credential",
        "secret=mine",
    ),
    Guard(
        "a credential of an API, for another origin that its document names",
        "fairlead_gateway.upstream.openapi",
        (
            (
                "credential_for(operation, self._access.credential) if sends_credential else _NO_CREDENTIAL",
                "credential_for(operation, self._access.credential)",
            ),
        ),
        f"{_CALLS}::test_redirects_and_other_origins_do_not_get_the_credential",
        "hush",
    ),
    Guard(
        "a secret argument of a tool, for another origin that an API's document names",
        "fairlead_gateway.upstream.openapi",
        (("if has_secrets and not sends_credential:", "if False:"),),
        f"{_SECRETS}::test_a_secret_argument_stays_at_the_origin_of_the_server",
        "bot-hush",
    ),
    Guard(
        "a secret argument in the path of an operation, as the name of a result",
        "fairlead_gateway.upstream.openapi",
        (("operation.path if has_secrets else ", ""),),
        f"{_SECRETS}::test_a_secret_argument_of_the_path_does_not_name_the_result",
        "bot-hush",
    ),
    Guard(
        "a key of a person beside another one that a model chose",
        _REQUESTS,
        ((" | {added_header}", ""),),
        "tests/unit/openapi/test_requests_of_operations.py::test_a_header_that_the_caller_adds_is_set_by_nothing_else",
        "mine",
    ),
    Guard(
        "an argument that multiplies in the request of an API, and holds up all calls",
        "fairlead_openapi.calling.styles",
        (("    if depth == MAX_DEPTH or len(name) > MAX_NAME_CHARS:", "    if False:"),),
        "tests/unit/openapi/test_requests_of_operations.py::test_a_value_is_refused_before_it_multiplies",
        "DID NOT RAISE",
    ),
    Guard(
        "an answer of an API that makes a result beyond the limit",
        "fairlead_gateway.upstream.api_origin",
        (("if size > self.max_bytes:", "if False:"),),
        f"{_CALLS}::test_an_answer_beyond_the_limit_is_refused",
        "assert",
    ),
    Guard(
        "a large answer of an API, which holds up all calls while its result is made",
        "fairlead_gateway.upstream.openapi",
        (("if len(body) <= LONG_BYTES:", "if True:"),),
        f"{AT}/test_large_answers_of_apis.py::test_a_worker_that_cannot_be_started_fails_its_call_alone",
        "isError",
    ),
)
