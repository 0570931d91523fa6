"""Calls of tools that are operations of an HTTP API, through the gateway."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consentservers import FormBrowser, consent_server
from consentworld import call_whoami, consent_catalog, laptop, link_of
from fairlead_api.documents.catalog import DeclaredLatency, OpenApiEndpoint, SentCredential
from fairlead_api.documents.operations import Operation, OperationBody, OperationParameter
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    Wire,
    ask,
    calling,
    catalog,
    limits,
    publish,
    running,
    wait_for_snapshots,
)
from oauthworld import exchanging, oauth_catalog, of, text_of
from petapi import (
    GET_PET,
    OPERATIONS,
    PET,
    PNG,
    api_catalog,
    api_url,
    operation_tool,
    path_of,
    pet_api,
    query_of,
    stored_credential,
)
from rawserver import Reply, Request, raw_server
from restworld import post
from tokenendpoint import token_endpoint
from waiting import eventually

ERAS = (MODERN, LEGACY)


def result_in(answer: Answer) -> Any:
    return answer.message["result"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_one_request_and_its_answer_a_structured_result(tmp_path: Path, era: str) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        result = result_in(await ask(gateway, calling("pets__getPet", {"id": "a/b 1"}, era=era)))
        listed = result_in(await ask(gateway, calling("pets__listPets", {"tags": ["x&y", "z"], "limit": 2.0}, era=era)))
        added = result_in(await ask(gateway, calling("pets__addPet", {"name": "Rex", "body_id": 1}, era=era)))
    assert result["structuredContent"] == PET
    assert json.loads(result["content"][0]["text"]) == PET
    assert listed["structuredContent"] == {"result": [PET]}
    assert not added.get("isError", False)
    assert "structuredContent" not in added
    assert [(request.verb, request.path, request.body) for request in server.seen] == [
        ("GET", "/v1/pets/a%2Fb%201", b""),
        ("GET", "/v1/pets?tags=x%26y&tags=z&limit=2", b""),
        ("POST", "/v1/pets", b'{"name":"Rex","id":1}'),
    ]
    assert server.seen[0].headers["accept"] == "application/json"
    assert server.seen[0].headers["user-agent"] == "fairlead"
    assert server.seen[2].headers["content-type"] == "application/json"
    assert "mcp-method" not in server.seen[0].headers


@pytest.mark.parametrize("era", ERAS)
async def test_answers_without_content_and_with_bytes_become_blocks(tmp_path: Path, era: str) -> None:
    async with pet_api() as (pets, server), running(tmp_path, api_catalog(server)) as gateway:
        pets.answers["/v1/pets/pdf/photo"] = (200, b"%PDF\x00\xff", {"kind": "application/pdf"})
        deleted = result_in(await ask(gateway, calling("pets__deletePet", {"id": "7"}, era=era)))
        photo = result_in(await ask(gateway, calling("pets__photo", {"id": "7"}, era=era)))
        pdf = result_in(await ask(gateway, calling("pets__photo", {"id": "pdf"}, era=era)))
        exists = result_in(await ask(gateway, calling("pets__existsPet", {"id": "7"}, era=era)))
        again = result_in(await ask(gateway, calling("pets__existsPet", {"id": "7"}, era=era)))
    assert "204 No Content" in deleted["content"][0]["text"]
    assert photo["content"] == [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}]
    assert pdf["content"][0]["resource"] == {
        "uri": "openapi:/v1/pets/pdf/photo",
        "mimeType": "application/pdf",
        "blob": base64.b64encode(b"%PDF\x00\xff").decode(),
    }
    assert "200 OK" in exists["content"][0]["text"] == again["content"][0]["text"]


async def test_forms_reach_the_api(tmp_path: Path) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        await ask(gateway, calling("pets__addPetByForm", {"name": "a&b=c", "tags": ["x", "y z"]}))
        photo = base64.b64encode(PNG).decode()
        await ask(gateway, calling("pets__upload", {"id": "7", "note": "hello", "photo": photo}))
    form, upload = server.seen
    assert form.body == b"name=a%26b%3Dc&tags=x&tags=y%20z"
    boundary = upload.headers["content-type"].partition("boundary=")[2].encode()
    assert upload.body == (
        b'--%b\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
        b'--%b\r\nContent-Disposition: form-data; name="photo"; filename="photo"\r\nContent-Type: image/png\r\n\r\n'
        b"%b\r\n--%b--\r\n" % (boundary, boundary, PNG, boundary)
    )


@pytest.mark.parametrize("value", ["..", ".", "../admin", "a/../b", "..\\x", "%2e%2e%2fadmin", "..;x", ""])
async def test_an_argument_cannot_leave_its_segment_of_the_path(tmp_path: Path, value: str) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        answer = await ask(gateway, calling("pets__getPet", {"id": value}))
        assert answer.refusal == "INVALID_ARGUMENTS"
        assert "The argument id" in text_of(answer)
        assert server.seen == []


async def test_an_argument_cannot_add_a_header_or_replace_the_credential(tmp_path: Path) -> None:
    header = OperationParameter(argument="key", name="X-Key", location="header")
    trace = OperationParameter(argument="trace", name="X-Trace", location="header")
    login = OperationParameter(argument="login", name="Authorization", location="header")
    secret, session = (
        query_of("secret"),
        OperationParameter(argument="sid", name="sid", location="cookie", style="form"),
    )
    operation = Operation(method="GET", path="/x", parameters=(header, trace, login, secret, session))
    credential = stored_credential(
        tmp_path, headers={"X-Key": "hush-1"}, query={"secret": "hush-2"}, cookies={"sid": "hush-3"}
    )
    async with pet_api() as (_, server):
        document = api_catalog(server, operation_tool("x", operation), credential=credential)
        async with running(tmp_path, document) as gateway:
            injected = await ask(gateway, calling("pets__x", {"trace": "a\r\nX-Evil: 1"}))
            own = {"key": "mine", "secret": "mine", "sid": "mine", "login": "mine", "trace": "t"}
            await ask(gateway, calling("pets__x", own))
    assert injected.refusal == "INVALID_ARGUMENTS"
    (request,) = server.seen
    assert request.path == "/v1/x?secret=hush-2"
    assert request.headers["x-key"] == "hush-1"
    assert request.headers["cookie"] == "sid=hush-3"
    assert request.headers["x-trace"] == "t"
    assert "mine" not in repr(request)


async def test_arguments_without_a_place_in_the_request_are_refused(tmp_path: Path) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        answer = await ask(gateway, calling("pets__listPets", {"colour": "red"}))
        missing = await ask(gateway, calling("pets__getPet", {}))
    assert answer.refusal == missing.refusal == "INVALID_ARGUMENTS"
    assert "no argument colour" in text_of(answer)
    assert "id is missing" in text_of(missing)
    assert server.seen == []


async def test_a_token_of_the_caller_is_sent_beside_the_credential_of_another_scheme(tmp_path: Path) -> None:
    operation = Operation(method="GET", path="/x", security=(("key", "person"),))
    schemes = {"key": SentCredential(query={"api_key": "hush"}), "person": SentCredential()}
    async with token_endpoint() as provider, pet_api() as (_, server):
        members = msgspec.to_builtins(msgspec.structs.replace(provider.credential(), schemes=schemes))
        document = msgspec.structs.replace(
            oauth_catalog(provider, "pets", api_url(server), [operation_tool("x", operation)]),
            endpoint=OpenApiEndpoint(url=api_url(server)),
            credential=stored_credential(tmp_path, **members),
        )
        async with exchanging(tmp_path, provider, document) as gateway:
            answer = await ask(gateway, of(provider, "alice", calling("pets__x")))
    assert "isError" not in result_in(answer)
    (request,) = server.seen
    assert request.path == "/v1/x?api_key=hush"
    assert request.headers["authorization"].startswith("Bearer ")


async def test_the_credential_of_each_operations_schemes_is_sent(tmp_path: Path) -> None:
    both = Operation(method="GET", path="/both", security=(("key", "unknown"), ("key", "app")))
    open_to_all = Operation(method="GET", path="/open", security=((),))
    schemes = {"key": {"query": {"api_key": "hush-1"}}, "app": {"cookies": {"app": "hush-2"}}}
    credential = stored_credential(tmp_path, headers={"X-Always": "hush-0"}, schemes=schemes)
    async with pet_api() as (_, server):
        tools = [operation_tool("both", both), operation_tool("open", open_to_all)]
        async with running(tmp_path, api_catalog(server, *tools, credential=credential)) as gateway:
            await ask(gateway, calling("pets__both"))
            await ask(gateway, calling("pets__open"))
    first, second = server.seen
    assert (first.path, first.headers["cookie"]) == ("/v1/both?api_key=hush-1", "app=hush-2")
    assert (second.path, second.headers.get("cookie")) == ("/v1/open", None)
    assert first.headers["x-always"] == second.headers["x-always"] == "hush-0"


async def test_redirects_and_other_origins_do_not_get_the_credential(tmp_path: Path) -> None:
    credential = stored_credential(tmp_path, headers={"Authorization": "Bearer hush"}, query={"key": "hush"})
    async with pet_api() as (pets, server), pet_api() as (others, other):
        elsewhere = Operation(
            method="GET", path="/pets/{id}", base_url=f"{api_url(other)}/w", parameters=(path_of("id"),)
        )
        document = api_catalog(server, operation_tool("elsewhere", elsewhere), credential=credential)
        async with running(tmp_path, document) as gateway:
            pets.answers["/v1/pets/7"] = (302, b"", {"location": f"{api_url(other)}/pets/7"})
            redirected = await ask(gateway, calling("pets__getPet", {"id": "7"}))
            assert other.seen == []
            sent = await ask(gateway, calling("pets__elsewhere", {"id": "7"}))
            others.answers["/v1/w/pets/8"] = (401, b"", {})
            refused = await ask(gateway, calling("pets__elsewhere", {"id": "8"}))
    assert redirected.refusal == "UPSTREAM_ERROR"
    assert text_of(redirected) == "the server redirects (302); redirects are not followed"
    assert not result_in(sent).get("isError", False)
    assert other.seen[0].path == "/v1/w/pets/7"
    assert "hush" not in repr(other.seen)
    assert result_in(refused)["isError"] is True
    assert "another origin" in text_of(refused)


@pytest.mark.parametrize("era", ERAS)
async def test_a_fault_of_the_call_is_told_with_status_and_body(tmp_path: Path, era: str) -> None:
    credential = stored_credential(tmp_path, headers={"X-Key": "hush-hush"})
    async with pet_api() as (pets, server), running(tmp_path, api_catalog(server, credential=credential)) as gateway:
        body = json.dumps({"detail": "name is too long", "key": "hush-hush"}).encode()
        pets.answers["/v1/pets"] = (422, body, {"kind": "application/problem+json"})
        pets.answers["/v1/pets/7"] = (404, b"x" * 100_000, {"kind": "text/plain"})
        faulty = result_in(await ask(gateway, calling("pets__addPet", {"name": "R" * 100}, era=era)))
        absent = result_in(await ask(gateway, calling("pets__getPet", {"id": "7"}, era=era)))
        ((_, attempts),) = [
            (tool, seen) for tool, seen in gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
        ][:1]
    assert faulty["isError"] is absent["isError"] is True
    assert faulty["content"][0]["text"].startswith("the API answered with status 422 Unprocessable")
    assert "name is too long" in faulty["content"][0]["text"]
    assert "hush" not in str(faulty)
    assert len(absent["content"][0]["text"]) < 2_100
    assert {attempt.outcome for attempt in attempts} == {"neutral"}


async def test_retry_after_is_heard_and_passing_failures_are_repeated(tmp_path: Path) -> None:
    answers = [(503, {}), (200, {}), (429, {"retry_after": "7"}), (500, {})]

    async def handle(request: Request, reply: Reply) -> None:
        status, headers = answers.pop(0)
        reply.send(status, b'{"id":7}', **headers)

    async with raw_server(handle) as server:
        tool = operation_tool("getPet", GET_PET, latency=DeclaredLatency(idempotent=True))
        document = catalog("pets", OpenApiEndpoint(url=api_url(server)), [tool], limits=limits(retries=1))
        async with running(tmp_path, document) as gateway:
            repeated = await ask(gateway, calling("pets__getPet", {"id": "7"}))
            limited = await ask(gateway, calling("pets__getPet", {"id": "7"}))
            failed = await ask(gateway, calling("pets__getPet", {"id": "7"}))
    assert result_in(repeated)["structuredContent"] == {"id": 7}
    assert limited.refusal == "RATE_LIMITED"
    assert result_in(limited)["_meta"]["fairlead.dev/error"]["retryAfterMs"] == 7000
    assert failed.refusal == "UPSTREAM_ERROR"
    assert "500 Internal Server Error" in text_of(failed)


async def test_an_answer_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async with pet_api() as (pets, server):
        document = api_catalog(server, limits=limits(max_result_bytes=2_000))
        async with running(tmp_path, document) as gateway:
            pets.answers["/v1/pets/7"] = (200, b'"' + b"x" * 3_000 + b'"', {})
            pets.answers["/v1/pets/8"] = (200, b'{"a":"' + b"x" * 1_500 + b'"}', {})  # the result contains it twice
            large = [await ask(gateway, calling("pets__getPet", {"id": name})) for name in ("7", "8")]
            fine = await ask(gateway, calling("pets__getPet", {"id": "9"}))
    assert [answer.refusal for answer in large] == ["RESULT_TOO_LARGE"] * 2
    assert result_in(fine)["structuredContent"] == PET


async def test_a_call_beyond_its_time_closes_its_connection(tmp_path: Path) -> None:
    async with (
        pet_api() as (pets, server),
        running(tmp_path, api_catalog(server, limits=limits(timeout_ms=300))) as gateway,
    ):
        pets.hold = asyncio.Event()
        assert (await ask(gateway, calling("pets__getPet", {"id": "7"}))).refusal == "TIMEOUT"
        await asyncio.wait_for(server.broken_off.wait(), 10)


async def test_a_cancelled_call_closes_its_connection(tmp_path: Path) -> None:
    async with pet_api() as (pets, server), running(tmp_path, api_catalog(server)) as gateway:
        pets.hold = asyncio.Event()
        async with await Wire.connect(gateway) as wire:
            wire.send(calling("pets__getPet", {"id": "7"}))
            await eventually(lambda: len(server.seen) == 1)
        await asyncio.wait_for(server.broken_off.wait(), 10)


async def test_an_api_that_is_away_opens_the_breaker(tmp_path: Path) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        server.refuse()
        codes = [(await ask(gateway, calling("pets__getPet", {"id": "7"}))).refusal for _ in range(6)]
    assert (codes[0], codes[-1]) == ("CONNECTION_LOST", "BREAKER_OPEN")


async def test_declared_results_of_a_get_are_cached(tmp_path: Path) -> None:
    async with pet_api() as (_, server):
        tool = operation_tool("cached", GET_PET, latency=DeclaredLatency(cacheable_seconds=60))
        async with running(tmp_path, api_catalog(server, tool)) as gateway:
            for _ in range(3):
                await ask(gateway, calling("pets__cached", {"id": "7"}))
    assert len(server.seen) == 1


async def test_a_cached_result_is_that_of_the_operation(tmp_path: Path) -> None:
    def cacheable_tool(operation: Operation) -> Any:
        return operation_tool("cached", operation, latency=DeclaredLatency(cacheable_seconds=60))

    async with pet_api() as (_, server), running(tmp_path, api_catalog(server, cacheable_tool(GET_PET))) as gateway:
        await ask(gateway, calling("pets__cached", {"id": "7"}))
        moved = msgspec.structs.replace(GET_PET, path="/animals/{id}")
        publish(tmp_path / "documents", api_catalog(server, cacheable_tool(moved)))
        await wait_for_snapshots(gateway, 2)
        await ask(gateway, calling("pets__cached", {"id": "7"}))
    assert [request.path for request in server.seen] == ["/v1/pets/7", "/v1/animals/7"]


async def test_arguments_are_checked_against_the_schema_first(tmp_path: Path) -> None:
    async with pet_api() as (_, server):
        tool = operation_tool("strict", GET_PET, {"id": {"type": "integer"}})
        async with running(tmp_path, api_catalog(server, tool)) as gateway:
            answer = await ask(gateway, calling("pets__strict", {"id": "seven"}))
            fine = await ask(gateway, calling("pets__strict", {"id": 7}))
    assert answer.refusal == "INVALID_ARGUMENTS"
    assert not result_in(fine).get("isError", False)
    assert len(server.seen) == 1


async def test_the_trace_of_a_call_goes_on_in_its_request(tmp_path: Path) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        await ask(gateway, calling("pets__getPet", {"id": "7"}).with_headers(traceparent=trace))
    assert trace.split("-")[1] in server.seen[0].headers["traceparent"]


async def test_the_rest_api_calls_operations_for_models(tmp_path: Path) -> None:
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "pets__getPet", "arguments": '{"id": "7"}'}}
        ],
    }
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        answer = await post(gateway, "/v1/tool-calls", {"format": "openai-chat", "message": message})
    assert "Rex" in json.dumps(answer.message)
    assert server.seen[0].path == "/v1/pets/7"


async def test_changed_operations_take_effect_with_their_catalog(tmp_path: Path) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        await ask(gateway, calling("pets__getPet", {"id": "7"}))
        moved = msgspec.structs.replace(OPERATIONS["getPet"], path="/animals/{id}")
        endpoint = OpenApiEndpoint(url=api_url(server))
        publish(tmp_path / "documents", catalog("pets", endpoint, [operation_tool("getPet", moved)]))
        await wait_for_snapshots(gateway, 2)
        await ask(gateway, calling("pets__getPet", {"id": "7"}))
    assert [request.path for request in server.seen] == ["/v1/pets/7", "/v1/animals/7"]


async def test_each_caller_reaches_the_api_as_itself_and_a_401_is_answered_with_one_grant(tmp_path: Path) -> None:
    refused: set[str] = set()

    async def handle(request: Request, reply: Reply) -> None:
        authorization = request.headers.get("authorization", "")
        status = 401 if authorization in refused else 200
        reply.send(status, json.dumps({"id": 1}).encode() if status == 200 else b"")

    async with token_endpoint() as provider, raw_server(handle) as server:
        endpoint = OpenApiEndpoint(url=api_url(server))
        tool = operation_tool("getPet", GET_PET)
        document = msgspec.structs.replace(oauth_catalog(provider, "pets", api_url(server), [tool]), endpoint=endpoint)
        async with exchanging(tmp_path, provider, document) as gateway:
            for person in ("alice", "bob"):
                await ask(gateway, of(provider, person, calling("pets__getPet", {"id": person})))
            refused.add(server.seen[0].headers["authorization"])
            again = await ask(gateway, of(provider, "alice", calling("pets__getPet", {"id": "again"})))
            refused |= {request.headers["authorization"] for request in server.seen}
            provider.strangers.add("alice")
            lost = await ask(gateway, of(provider, "alice", calling("pets__getPet", {"id": "lost"})))
    tokens = [request.headers["authorization"] for request in server.seen]
    assert len(set(tokens[:2])) == 2
    assert not result_in(again).get("isError", False)
    assert [request.path for request in server.seen[2:4]] == ["/v1/pets/again"] * 2
    assert tokens[2] == tokens[0] != tokens[3]
    assert lost.refusal == "CREDENTIAL_UNAVAILABLE"
    assert provider.tokens_by_person["alice"] == 2


async def test_calls_are_spread_over_the_pods_of_an_api_and_leave_one_that_is_gone(tmp_path: Path) -> None:
    async with pet_api() as (_, first), pet_api() as (_, second):
        servers = [first, second]

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", server.port) for server in servers]

        endpoint = OpenApiEndpoint(url="http://pets.tools.svc/v1")
        document = catalog("pets", endpoint, [operation_tool("getPet", GET_PET)], limits=limits(retries=0))
        async with running(tmp_path, document, resolve=resolve) as gateway:
            for number in range(20):
                await ask(gateway, calling("pets__getPet", {"id": number}))
            shares = [len(server.seen) for server in servers]
            second.refuse()
            answers = [await ask(gateway, calling("pets__getPet", {"id": number})) for number in range(20, 40)]
    assert min(shares) >= 8
    assert first.seen[0].headers["host"] == "pets.tools.svc"
    assert not any(result_in(answer).get("isError", False) for answer in answers)


async def test_an_address_that_is_not_for_servers_is_not_called(tmp_path: Path) -> None:
    elsewhere = Operation(method="GET", path="/latest", base_url="http://169.254.169.254")
    async with pet_api() as (_, server):
        document = api_catalog(server, operation_tool("elsewhere", elsewhere), limits=limits(retries=0))
        async with running(tmp_path, document) as gateway:
            answer = await ask(gateway, calling("pets__elsewhere"))
    assert answer.refusal == "CONNECTION_LOST"
    assert "not allowed" in text_of(answer)


async def test_a_slow_api_is_pinged_without_its_credential(tmp_path: Path) -> None:
    credential = stored_credential(tmp_path, headers={"X-Key": "hush"})
    async with pet_api() as (pets, server):
        document = api_catalog(server, credential=credential, limits=limits(timeout_ms=50, retries=0))
        async with running(tmp_path, document) as gateway:
            pets.hold = asyncio.Event()
            codes = [(await ask(gateway, calling("pets__getPet", {"id": "7"}))).refusal for _ in range(7)]
            await eventually(lambda: any(request.verb == "OPTIONS" for request in server.seen))
            pings = [request for request in server.seen if request.verb == "OPTIONS"]
    assert set(codes) == {"TIMEOUT"}  # pings are answered, so only the operation is slow
    assert pings[0].path == "/v1"
    assert "hush" not in repr(pings)


async def test_events_of_a_stream_are_one_result(tmp_path: Path) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.open_stream()
        for number in range(3):
            reply.event({"n": number})
        reply.end_stream()

    async with raw_server(handle) as server:
        document = catalog("pets", OpenApiEndpoint(url=api_url(server)), [operation_tool("getPet", GET_PET)])
        async with running(tmp_path, document) as gateway:
            answer = await ask(gateway, calling("pets__getPet", {"id": "7"}))
    assert [json.loads(line) for line in text_of(answer).split("\n\n")] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_a_person_signs_in_at_an_api_and_calls_it_with_the_grant(tmp_path: Path) -> None:
    async with consent_server("linear") as server:
        body = OperationBody(media_type="application/json", argument="body", required=True)
        base, accept = server.url.removesuffix("/mcp"), "application/json, text/event-stream"
        operation = Operation(method="POST", path="/mcp", base_url=base, body=body, accept=accept)
        tools = [operation_tool("whoami", operation)]
        document = msgspec.structs.replace(
            consent_catalog(server.url, tools=tools), endpoint=OpenApiEndpoint(url=server.url)
        )
        async with laptop(tmp_path, document) as gateway, FormBrowser() as browser:
            request = calling("linear__whoami", {"body": {}})
            assert (await call_whoami(gateway, request)).refusal == "SIGN_IN_REQUIRED"
            await browser.sign_in(await link_of(gateway))
            answer = await call_whoami(gateway, request)
    assert "status 400 Bad Request" in text_of(answer)  # the server accepts the token, but not the empty body
