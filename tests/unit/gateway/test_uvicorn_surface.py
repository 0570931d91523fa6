"""What the front uses of uvicorn beyond its documentation: a new minor version that moves any of it fails here."""

from __future__ import annotations

import asyncio
import inspect

import httptools
import pytest
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState


async def _app(scope: object, receive: object, send: object) -> None: ...


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("__init__", ["self", "config", "server_state", "app_state", "_loop"]),
        ("connection_lost", ["self", "exc"]),
        ("pause_writing", ["self"]),
        ("resume_writing", ["self"]),
        ("on_message_begin", ["self"]),
        ("on_url", ["self", "url"]),
        ("on_header", ["self", "name", "value"]),
        ("on_headers_complete", ["self"]),
        ("on_body", ["self", "body"]),
        ("on_message_complete", ["self"]),
        ("on_response_complete", ["self"]),
        ("shutdown", ["self"]),
        ("_start_asgi_task", ["self", "cycle", "app"]),
    ],
)
def test_the_protocol_has_the_methods_that_are_overridden(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(HttpToolsProtocol, method)).parameters) == parameters


async def test_a_connection_has_the_attributes_that_are_read() -> None:
    config = Config(_app, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    protocol = HttpToolsProtocol(config, state, {}, asyncio.get_running_loop())
    assert vars(protocol)["cycle"] is None
    assert protocol.client is None
    assert list(protocol.pipeline) == []
    assert protocol.server_state is state
    assert state.connections == set()
    assert state.tasks == set()
    assert protocol.parser.should_upgrade() is False


def test_a_cycle_has_what_an_exchange_stands_in_for() -> None:
    source = inspect.getsource(RequestResponseCycle.__init__)
    assert "self.response_complete = False" in source
    assert "self.keep_alive = keep_alive" in source


def test_a_cycle_can_be_told_that_its_client_is_gone() -> None:
    source = inspect.getsource(RequestResponseCycle.__init__)
    for attribute in ("self.message_event = ", "self.disconnected = False", "self.response_started = False"):
        assert attribute in source
    assert "if self.disconnected or self.response_complete:" in inspect.getsource(RequestResponseCycle.receive)
    assert 'self.scope["headers"]' not in inspect.getsource(HttpToolsProtocol.on_headers_complete)
    assert '"headers": self.headers' in inspect.getsource(HttpToolsProtocol.on_message_begin)


def test_the_pipeline_is_filled_at_the_left_and_served_from_the_right() -> None:
    assert "self.pipeline.appendleft((self.cycle, app))" in inspect.getsource(HttpToolsProtocol.on_headers_complete)
    assert "existing_cycle.response_complete" in inspect.getsource(HttpToolsProtocol.on_headers_complete)
    assert "self.pipeline.pop()" in inspect.getsource(HttpToolsProtocol.on_response_complete)


def test_flow_control_has_the_switches_that_are_used() -> None:
    for method in ("pause_reading", "resume_reading", "pause_writing", "resume_writing"):
        assert callable(getattr(FlowControl, method))
    for flag in ("write_paused", "read_paused"):
        assert f"self.{flag}" in inspect.getsource(FlowControl.__init__)


def test_a_parser_error_carries_what_a_callback_raised() -> None:
    class Raising:
        def on_url(self, url: bytes) -> None:
            raise LookupError("mine")

    parser = httptools.HttpRequestParser(Raising())
    with pytest.raises(httptools.HttpParserError) as caught:
        parser.feed_data(b"GET /x HTTP/1.1\r\n\r\n")
    assert isinstance(caught.value.__context__, LookupError)
