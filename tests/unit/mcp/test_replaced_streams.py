"""Streams whose peer is about to end while another one is there, in virtual time and without a network."""

from __future__ import annotations

import asyncio
import json

import pytest

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, ConnectionLost
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.stream_client import MAX_MOVES, REPLACE_SECONDS, StreamClient, StreamState
from fairlead_mcp.streams import (
    ON_DEMAND,
    ClientSide,
    MessageStream,
    StreamConnection,
    StreamOpener,
    StreamPolicy,
)
from fakeprocesses import now

pytestmark = [pytest.mark.looptime(start=0)]


class PodStream:
    """An open stream to a pod, whose server answers `ping` at once and `work` when told to."""

    def __init__(self, connection: StreamConnection, pod: str, *, ends: bool) -> None:
        self.connection = connection
        self.pod = pod
        self.closed = False
        self.methods: list[str] = []
        self.waiting: list[object] = []
        """Ids of requests without an answer."""
        self._ends = ends

    def write(self, line: bytes) -> None:
        message = json.loads(line)
        self.methods.append(message["method"])
        if self._ends:
            self.break_off()
        elif message["method"] in ("work", "subscriptions/listen"):
            self.waiting.append(message["id"])
        elif "id" in message:
            self.answer(message["id"])

    def answer(self, ident: object) -> None:
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "pod": self.pod}
        self.connection.on_line(json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode())

    async def aclose(self) -> None:
        self.closed = True

    def break_off(self) -> None:
        self.connection.on_end(ConnectionLost("the pod ended", sent=True))


class PodsOpener(StreamOpener):
    """Opens streams to `pod`, each after `seconds`; streams to the pods in `ending` are lost at their first message."""

    check_seconds = 5.0

    def __init__(self, pod: str, *ending: str) -> None:
        self.pod = pod
        self.ending = ending
        self.seconds = 0.0
        self.refusing: list[str] = []
        """Pods that take no more connections."""
        self.after_loss: str | None = None
        """The pod to use once a stream was lost."""
        self.opened: list[PodStream] = []

    async def open(self, connection: StreamConnection) -> PodStream:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        self.opened.append(PodStream(connection, self.pod, ends=self.pod in self.ending))
        self.pod = self.after_loss or self.pod
        return self.opened[-1]

    async def is_current(self, stream: MessageStream) -> bool:
        assert isinstance(stream, PodStream)
        return stream.pod == self.pod

    async def is_ending(self, stream: MessageStream) -> bool:
        assert isinstance(stream, PodStream)
        return stream.pod in self.refusing


def client_of(opener: PodsOpener, policy: StreamPolicy = ON_DEMAND, side: ClientSide | None = None) -> StreamClient:
    backoff = Backoff(lambda: 0.0, base=1.0, cap=8.0)
    return StreamClient("a", opener, policy, side=side or ClientSide(), backoff=backoff, clock=now)


async def pod_of(client: StreamClient, method: str = "ping") -> str:
    """The pod that answers a request."""
    line = await client.request(method, None, deadline=now() + 60)
    return str(json.loads(line)["result"]["pod"])


async def test_requests_that_run_are_answered_by_their_pod_while_new_ones_go_to_another() -> None:
    client = client_of(opener := PodsOpener("old"))
    running = asyncio.ensure_future(pod_of(client, "work"))
    await asyncio.sleep(1)
    opener.pod = "new"
    await asyncio.sleep(4.5)
    assert repr(client) == "<StreamClient a running, 2 starts>"
    assert await pod_of(client) == "new"
    old, new = opener.opened
    assert [old.closed, new.closed] == [False, False]
    old.answer(old.waiting[0])
    assert await running == "old"
    await asyncio.sleep(0.1)
    assert old.closed, "the pod waits for the end of the stream"
    await client.aclose()


async def test_a_stream_without_requests_leaves_its_pod_at_once_and_stays_at_one_that_is_current() -> None:
    client = client_of(opener := PodsOpener("old"))
    await client.wait_until_ready(now() + 5)
    await asyncio.sleep(60)
    assert repr(client) == "<StreamClient a running, 1 starts>"
    opener.pod = "new"
    await asyncio.sleep(5.5)
    assert repr(client) == "<StreamClient a running, 2 starts>"
    assert opener.opened[0].closed
    await client.aclose()


async def test_no_request_waits_for_the_process_of_the_new_pod_while_the_old_one_answers() -> None:
    client = client_of(opener := PodsOpener("old"))
    await client.wait_until_ready(now() + 5)
    opener.pod, opener.seconds = "new", REPLACE_SECONDS - 2
    await asyncio.sleep(0.5)
    answers = []
    while now() < 30:
        begin = now()
        answers.append(await pod_of(client))
        assert now() == begin
        await asyncio.sleep(1)
    assert answers == ["old"] * 15 + ["new"] * 15
    assert opener.opened[0].closed
    await client.aclose()


async def test_a_process_that_is_too_slow_takes_over_before_the_old_pod_ends() -> None:
    client = client_of(opener := PodsOpener("old"))
    await client.wait_until_ready(now() + 5)
    opener.pod, opener.seconds = "new", REPLACE_SECONDS + 3
    await asyncio.sleep(5 + REPLACE_SECONDS - 1)
    assert await pod_of(client) == "old"
    await asyncio.sleep(2)
    assert opener.opened[0].closed, "the old pod may end, as nobody waits for its answer"
    assert await pod_of(client) == "new"
    assert (now(), client.starts) == (5 + REPLACE_SECONDS + 3, 2)
    await client.aclose()


async def test_requests_wait_for_the_new_pod_when_the_old_one_ends_early() -> None:
    client = client_of(opener := PodsOpener("old"))
    await client.wait_until_ready(now() + 5)
    opener.pod, opener.seconds = "new", 8
    await asyncio.sleep(6)
    opener.opened[0].break_off()
    assert repr(client) == "<StreamClient a starting, 2 starts>"
    assert await pod_of(client) == "new"
    assert (now(), client.starts) == (13, 2)
    await client.aclose()


async def test_requests_stay_at_the_old_pod_while_the_process_of_the_new_one_does_not_start() -> None:
    client = client_of(opener := PodsOpener("old", "new"), StreamPolicy(modern=True))
    await client.wait_until_ready(now() + 5)
    opener.pod = "new"
    await asyncio.sleep(8)
    assert await pod_of(client) == "old"
    opener.ending = ()
    await asyncio.sleep(5)
    assert await pod_of(client) == "new"
    await client.aclose()


async def test_requests_get_the_outcome_of_another_attempt_when_both_pods_end() -> None:
    client = client_of(opener := PodsOpener("old", "new"))
    await client.wait_until_ready(now() + 5)
    opener.pod, opener.seconds = "new", 2
    await asyncio.sleep(6)
    opener.opened[0].break_off()
    opener.after_loss = "newest"
    assert await pod_of(client) == "newest"
    await client.aclose()


async def test_a_stream_that_is_opened_in_place_of_another_ends_with_their_client() -> None:
    client = client_of(opener := PodsOpener("old"))
    await client.wait_until_ready(now() + 5)
    opener.pod, opener.seconds = "new", 3
    await asyncio.sleep(6)
    await client.aclose()
    await asyncio.sleep(60)
    assert [(stream.pod, stream.closed) for stream in opener.opened] == [("old", True)]
    assert client.state is StreamState.CLOSED


async def test_an_idle_client_opens_no_stream_in_place_of_the_one_that_it_closes() -> None:
    client = client_of(opener := PodsOpener("old"), StreamPolicy(idle=6))
    await client.wait_until_ready(now() + 5)
    opener.pod, opener.seconds = "new", 3
    await asyncio.sleep(60)
    assert client.state is StreamState.IDLE
    assert [(stream.pod, stream.closed) for stream in opener.opened] == [("old", True)]
    assert await pod_of(client) == "new"
    await client.aclose()


async def test_subscriptions_end_with_the_stream_and_are_made_again_at_another_pod() -> None:
    client = client_of(opener := PodsOpener("old"))
    listening = asyncio.ensure_future(client.listen(now() + 5))
    await asyncio.sleep(1)
    assert opener.opened[0].waiting
    opener.pod = "new"
    await asyncio.sleep(5)
    with pytest.raises(ConnectionLost, match="reached elsewhere"):
        await listening
    await asyncio.sleep(0.1)
    assert opener.opened[0].closed
    await client.aclose()


async def test_a_pod_that_ends_before_its_last_answer_fails_that_request_alone() -> None:
    client = client_of(opener := PodsOpener("old"))
    running = asyncio.ensure_future(pod_of(client, "work"))
    await asyncio.sleep(1)
    opener.pod = "new"
    await asyncio.sleep(5)
    assert await pod_of(client) == "new"
    opener.opened[0].break_off()
    with pytest.raises(ConnectionLost, match="the pod ended"):
        await running
    assert client.state is StreamState.RUNNING
    await asyncio.sleep(0.1)
    assert opener.opened[0].closed
    await client.aclose()


async def test_the_stream_of_one_client_stays_at_the_pod_that_has_its_state() -> None:
    side = ClientSide(offering=Offering(b"{}", lambda message, answer: None))
    client = client_of(opener := PodsOpener("old"), side=side)
    await client.wait_until_ready(now() + 5)
    opener.pod = "new"
    await asyncio.sleep(60)
    assert client.state is StreamState.RUNNING
    assert await pod_of(client) == "old"
    await client.aclose()


async def test_the_stream_of_one_client_leaves_a_pod_that_takes_no_more_connections() -> None:
    """The pod would wait for its end, although its state is lost in any case."""
    side = ClientSide(offering=Offering(b"{}", lambda message, answer: None))
    client = client_of(opener := PodsOpener("old"), side=side)
    running = asyncio.ensure_future(pod_of(client, "work"))
    await asyncio.sleep(1)
    opener.pod, opener.refusing = "new", ["old"]
    await asyncio.sleep(5)
    assert [stream.closed for stream in opener.opened] == [False], "a request waits for its answer"
    assert await pod_of(client) == "new"
    opener.opened[0].answer(opener.opened[0].waiting[0])
    assert await running == "old"
    await asyncio.sleep(0.1)
    assert opener.opened[0].closed
    await client.aclose()


async def test_requests_that_wait_for_a_process_in_a_pod_that_ends_get_one_in_another() -> None:
    opener = PodsOpener("old", "old")
    opener.after_loss = "new"
    client = client_of(opener)
    assert await asyncio.gather(*(pod_of(client) for _ in range(10))) == ["new"] * 10
    assert client.starts == 2
    await client.aclose()


async def test_a_name_that_leads_elsewhere_each_time_has_its_streams_opened_with_delays() -> None:
    class RovingOpener(PodsOpener):
        """Each of the first 20 streams leads to another pod, which ends at once."""

        async def open(self, connection: StreamConnection) -> PodStream:
            number = len(self.opened)
            self.pod, self.after_loss = f"pod {number}", f"pod {number + 1}"
            self.ending = (self.pod,) if number < 20 else ()
            return await super().open(connection)

    client = client_of(RovingOpener("pod 0"), StreamPolicy(modern=True))
    with pytest.raises(ConnectFailed, match="the pod ended"):
        await client.wait_until_ready(now() + 5)
    assert client.starts == 1 + MAX_MOVES
    assert client.state is StreamState.BACKOFF
    await client.aclose()


async def test_a_process_that_ends_in_the_only_pod_fails_what_waits_for_it() -> None:
    client = client_of(PodsOpener("old", "old"))
    with pytest.raises(ConnectFailed, match="the pod ended"):
        await client.wait_until_ready(now() + 5)
    assert client.starts == 1
    await client.aclose()


@pytest.mark.parametrize(
    ("policy", "second"), [(StreamPolicy(modern=True), "server/discover"), (ON_DEMAND, "initialize")]
)
async def test_a_lost_stream_leads_to_the_other_era_unless_the_server_is_known_to_be_modern(
    policy: StreamPolicy, second: str
) -> None:
    """The gateway has encoded its requests for the known era before the stream is opened."""
    client = client_of(opener := PodsOpener("old", "old"), policy)
    for _ in range(2):
        with pytest.raises(ConnectFailed):
            await client.wait_until_ready(now() + 5)
        await asyncio.sleep(1.1)
    assert [stream.methods[0] for stream in opener.opened] == ["server/discover", second]
    await client.aclose()


async def test_streams_that_are_left_end_with_their_client() -> None:
    client = client_of(opener := PodsOpener("old"))
    running = asyncio.ensure_future(pod_of(client, "work"))
    await asyncio.sleep(1)
    opener.pod = "new"
    await asyncio.sleep(5)
    await client.aclose()
    with pytest.raises(ConnectionLost, match="was closed"):
        await running
    assert opener.opened[0].closed
