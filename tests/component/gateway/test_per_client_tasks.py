"""Tasks of a server with `session: PerClient`: the process with a task stays alive, and later requests reach it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Raw

from askers import session_of
from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_app.gateway import Gateway
from fairlead_mcp.host import ChildHost
from forkserver import FORKED, start_server
from gated_stdio_server import CREDENTIAL, gated, write_token
from gatewayworld import LEGACY, META, Answer, Wire, ask, calling, catalog, legacy, modern, running
from policyworld import by
from rawserver import raw_server
from tasks_gateway import about, calls, create_task, demo, listen_to_tasks, notification, trust_in
from taskserver import CAPABILITIES, DECLARING, TaskServer, text_result
from toolservers import SDK_TASKS_STDIO
from waiting import eventually

OWN_TOOLS = ("job", "must", "pid", "ask")


@dataclass
class World:
    """A gateway and the processes of its server."""

    gateway: Gateway
    children: ChildHost
    until: Path
    """The server's tasks end when this file exists."""

    @property
    def processes(self) -> int:
        return len(self.children.children())

    async def create_task(self, name: str = "job", **arguments: Any) -> str:
        """Create a task. Returns its id."""
        given = {"until": str(self.until), **arguments}
        result = (await ask(self.gateway, calling(f"demo__{name}", given, **DECLARING))).message["result"]
        assert result["resultType"] == "task", result
        return str(result["taskId"])

    async def about(self, method: str, task: str) -> Answer:
        return await ask(self.gateway, about(method, task))

    async def pid(self) -> str:
        """Id of the process that answers a call of a client of 2026-07-28."""
        return text((await ask(self.gateway, calling("demo__pid", {}))).message["result"])


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


@contextlib.asynccontextmanager
async def world(folder: Path, **settings: Any) -> AsyncIterator[World]:
    """A gateway with the SDK's server over stdio, in a process for each client."""
    start_server()
    child = ChildEndpoint(command=FORKED[0], args=(*FORKED[1:], SDK_TASKS_STDIO))
    document = catalog("demo", child, OWN_TOOLS, session="PerClient", capabilities=Raw(CAPABILITIES))
    children = ChildHost()
    try:
        async with running(folder, document, children=children, **settings) as gateway:
            yield World(gateway, children, folder / "ended")
    finally:
        await children.aclose()


async def test_tasks_of_a_modern_http_server_work_as_with_shared_sessions(tmp_path: Path) -> None:
    """The server has no sessions, so the end of a call does not end one."""
    server = TaskServer()
    async with raw_server(server.handle) as raw, running(tmp_path, demo(raw.url, session="PerClient")) as gateway:
        task = await create_task(gateway)
        server.ends("t1", result=text_result("done"))
        ended = (await ask(gateway, about("tasks/get", task))).message["result"]
        assert (ended["status"], ended["result"]) == ("completed", text_result("done"))
        waited = (
            await ask(gateway, calling("demo__must", {"ends": {"result": text_result("waited")}}, era=LEGACY))
        ).message
        assert text(waited["result"]) == "waited"


async def test_a_task_goes_on_in_the_process_that_made_it_and_no_other(tmp_path: Path) -> None:
    async with world(tmp_path) as clients:
        tasks = [await clients.create_task() for _ in range(2)]
        await eventually(lambda: clients.processes == 2)
        assert await clients.pid()
        for task in tasks:
            assert (await clients.about("tasks/get", task)).message["result"]["status"] == "working"
        clients.until.touch()
        ended = [(await clients.about("tasks/get", task)).message["result"] for task in tasks]
        assert [task["status"] for task in ended] == ["completed", "completed"]
        assert len({text(task["result"]) for task in ended}) == 2, "each had the process of its own"


async def test_a_task_behind_a_listener_goes_on_in_the_process_that_made_it(tmp_path: Path) -> None:
    write_token(tmp_path)
    async with gated(SDK_TASKS_STDIO) as server:
        document = catalog(
            "demo",
            server.endpoint,
            OWN_TOOLS,
            session="PerClient",
            credential=CREDENTIAL,
            capabilities=Raw(CAPABILITIES),
        )
        async with running(tmp_path, document) as gateway:
            clients = World(gateway, ChildHost(), tmp_path / "ended")
            tasks = [await clients.create_task() for _ in range(2)]
            await eventually(lambda: len(server.servers) == 2)
            clients.until.touch()
            ended = [(await clients.about("tasks/get", task)).message["result"] for task in tasks]
            assert {text(task["result"]) for task in ended} == {str(pid) for pid in server.servers}


async def test_a_process_ends_with_the_time_of_its_task(tmp_path: Path) -> None:
    async with world(tmp_path) as clients:
        task = await clients.create_task(ttlMs=100)
        await eventually(lambda: clients.processes == 0)
        answer = await clients.about("tasks/get", task)
        assert (answer.status, answer.code) == (400, -32602)
        assert "one that has ended" in answer.message["error"]["message"]
        assert clients.processes == 0, "none is started to be asked"


async def test_a_process_that_nobody_asks_ends_with_its_task(tmp_path: Path) -> None:
    async with world(tmp_path, upstream_session_seconds=0.2) as clients:
        await clients.create_task()
        await eventually(lambda: clients.processes == 0)


async def test_processes_with_tasks_are_half_of_all_and_calls_have_the_others(tmp_path: Path) -> None:
    async with world(tmp_path, upstream_sessions=4) as clients:
        tasks = [await clients.create_task() for _ in range(2)]
        assert text((await ask(clients.gateway, calls("job"))).message["result"]) == "at once"
        refused = await ask(clients.gateway, calls("must"))
        assert refused.refusal == "RATE_LIMITED"
        assert "FAIRLEAD_UPSTREAM_SESSIONS" in text(refused.message["result"])
        assert (await ask(clients.gateway, calling("demo__must", {}, era=LEGACY))).refusal == "RATE_LIMITED"
        assert await clients.pid()
        assert (await clients.about("tasks/cancel", tasks[0])).message["result"]["resultType"] == "complete"
        await clients.create_task("must")
        assert (await clients.about("tasks/get", tasks[1])).message["result"]["status"] == "working"


async def test_an_ended_process_takes_its_task_along(tmp_path: Path) -> None:
    """A new process is started, which has another task with the same id."""
    async with world(tmp_path) as clients:
        task = await clients.create_task()
        (child,) = clients.children.children().values()
        before = child.starts
        assert child.program.pid is not None
        os.kill(child.program.pid, signal.SIGKILL)
        await eventually(lambda: child.starts > before and child.negotiated is not None)
        answer = await clients.about("tasks/get", task)
        assert (answer.status, answer.code) == (400, -32602)


async def test_a_client_is_notified_of_tasks_in_processes_of_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as clients:
        tasks = [await clients.create_task() for _ in range(2)]
        clients.until.touch()
        async with await Wire.connect(clients.gateway) as wire:
            assert (await listen_to_tasks(wire, tasks))["taskIds"] == tasks
            heard = [(await notification(wire))["params"]["taskId"] for _ in tasks]
            assert sorted(heard) == sorted(tasks)


async def test_clients_without_tasks_wait_for_one_in_their_own_process(tmp_path: Path) -> None:
    """The process of their session, or a process for only this call."""
    async with world(tmp_path) as clients:
        clients.until.touch()
        session = await session_of(clients.gateway, {})

        async def call_text(name: str, session: str | None) -> str:
            params = {"name": f"demo__{name}", "arguments": {"until": str(clients.until)}}
            return text((await ask(clients.gateway, legacy("tools/call", params, session=session))).message["result"])

        own = await call_text("pid", session)
        assert await call_text("must", session) == own
        alone = await call_text("must", None)
        assert alone.isdigit()
        assert alone != own
        assert await call_text("pid", session) == own


async def test_a_call_that_asked_by_its_result_goes_on_in_the_process_that_asked(tmp_path: Path) -> None:
    """The SDK seals its state with a key of the process, so no other process can read it."""
    offer: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {}}}
    call: dict[str, Any] = {"name": "demo__ask", "arguments": {}}
    async with world(tmp_path) as clients:
        first = (await ask(clients.gateway, modern("tools/call", call, **offer))).message["result"]
        assert first["resultType"] == "input_required"
        await clients.pid()
        answers = {"q": {"action": "accept", "content": {"x": "y"}}}
        again = {**call, "inputResponses": answers, "requestState": first["requestState"]}
        last = (await ask(clients.gateway, modern("tools/call", again, number=2, **offer))).message["result"]
        assert text(last).startswith("asked before ")


async def test_a_task_in_a_process_cannot_be_reached_by_another_principal(tmp_path: Path) -> None:
    """Each process has a task `t1`."""
    async with world(tmp_path, trust=trust_in("alice", "bob")) as clients:
        gateway = clients.gateway
        tasks = [(await ask(gateway, by(who, calls()))).message["result"]["taskId"] for who in ("alice", "bob")]
        for who, own, foreign in (("alice", *tasks), ("bob", *tasks[::-1])):
            assert (await ask(gateway, by(who, about("tasks/get", own)))).message["result"]["taskId"] == own
            answer = await ask(gateway, by(who, about("tasks/get", foreign)))
            assert (answer.status, answer.code) == (400, -32602)
