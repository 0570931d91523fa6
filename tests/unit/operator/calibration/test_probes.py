"""The prober's calls, in virtual time, and its interpretation of the answers."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Credential, Endpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.eras import Era, Negotiated
from fairlead_mcp.errors import BadJson, ConnectionLost, HttpRefused, McpError, RpcError, Timeout
from fairlead_mcp.session import McpSession
from fairlead_operator.calibration.plan import PlannedProbe, ProbePlan
from fairlead_operator.calibration.prober import Prober, ProbeSet
from fairlead_operator.clocks import Clocks
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.ports import MethodObserver
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

KEY = ServerKey("team", "demo")
OK = Raw(b'{"resultType":"complete","content":[]}')
BASELINE = 0.005


@dataclass
class Server:
    """A server whose tools take `seconds` each, and which records the calls with their times."""

    seconds: dict[str, float] = field(default_factory=dict)
    failing: dict[str, McpError] = field(default_factory=dict)
    answer: Raw = field(default_factory=lambda: OK)
    era: Era = Era.MODERN
    called: list[tuple[float, str]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    """Seconds after which each call ended or was cancelled. Only for tests that call one tool."""
    baselines: list[str] = field(default_factory=list)
    sessions: int = 0
    running: int = 0
    most: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def negotiated(self) -> Negotiated:
        return Negotiated(self.era, "2026-07-28", Raw(b"{}"), Raw(b"{}"))

    async def connect(self, deadline: float) -> Negotiated:
        return self.negotiated

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, extension: str = "") -> Raw:
        if method != "tools/call":
            self.baselines.append(method)
            await asyncio.sleep(BASELINE)
            return Raw(b"{}")
        name = bytes(params or b"").split(b'"')[3].decode()
        self.called.append((asyncio.get_running_loop().time(), name))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds.get(name, 0.1))
        finally:
            self.running -= 1
            self.took.append(asyncio.get_running_loop().time() - self.called[-1][0])
        if name in self.failing:
            raise self.failing[name]
        return self.answer

    async def listen(self, deadline: float) -> None:
        raise AssertionError("nobody listens here")

    async def aclose(self) -> None:
        return None


@dataclass
class World:
    """A prober and one server. It is the prober's connector and judge, and records the reports."""

    server: Server
    samples: list[tuple[str, Sample]] = field(default_factory=list)
    watched: frozenset[str] = frozenset()
    hidden: dict[str, float] = field(default_factory=dict)
    round_trip: float = 0.0
    finished: int = 0

    def __post_init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.prober = Prober(self, self, self.told, clocks=Clocks(monotonic=clock, rng=random.Random(1)), wall=clock)

    def told(self, key: ServerKey) -> None:
        self.finished += 1

    # The connector.

    @asynccontextmanager
    async def session(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        on_notification: MethodObserver | None = None,
        *,
        capabilities: bytes | None = None,
    ) -> AsyncIterator[McpSession]:
        self.server.sessions += 1
        async with McpSession(self.server, clock=asyncio.get_running_loop().time) as session:
            yield session

    async def open_idle_connection(
        self, key: ServerKey, endpoint: Endpoint, previous: tuple[str, int] | None
    ) -> IdleConnection | None:
        return None

    def end_shared_process(self, key: ServerKey) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def offers_sign_in(self, key: ServerKey, endpoint: HttpEndpoint) -> bool:
        return False

    # The judge.

    def take_probe(self, server: ServerKey, tool: str, sample: Sample) -> None:
        self.samples.append((tool, sample))

    def take_probed_tools(self, server: ServerKey, tools: Collection[str]) -> None:
        self.watched = frozenset(tools)

    def hidden_limits_ms(self, server: ServerKey) -> Mapping[str, float]:
        return self.hidden

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        self.round_trip = milliseconds

    # Actions of tests

    def hold(
        self, *tools: str, given: bool = False, samples: int = 3, revision: str = "1", interval: float = 3600.0
    ) -> None:
        probes = tuple(PlannedProbe(tool, b"{}", given, 5.0) for tool in tools)
        bench = ProbeSet("uid", HttpEndpoint(url="http://x/mcp"), "", revision, ProbePlan(probes), samples, interval)
        self.prober.hold(KEY, bench, None)

    def hide(self, tool: str, limit_ms: float = 500.0) -> None:
        self.hidden[tool] = limit_ms
        self.prober.reschedule(KEY)

    def show(self, tool: str) -> None:
        self.hidden.pop(tool)
        self.prober.reschedule(KEY)

    def calls(self, tool: str) -> list[float]:
        return [at for at, name in self.server.called if name == tool]

    def verdict(self) -> tuple[bool | None, str] | None:
        judged = self.prober.verdict(KEY)
        return None if judged is None else (judged.ok, judged.cause)


@asynccontextmanager
async def world(**server: object) -> AsyncIterator[World]:
    here = World(Server(**server))  # type: ignore[arg-type]  # its fields
    try:
        yield here
    finally:
        await here.prober.aclose()


async def test_every_tool_is_probed_on_connect_and_then_once_per_interval_one_at_a_time() -> None:
    async with world() as here:
        here.hold("a", "b")
        await asyncio.sleep(60)
        assert [name for _, name in here.server.called] == ["a", "b"] * 3
        assert here.server.most == 1
        assert (here.finished, here.verdict()) == (1, (True, Cause.CALIBRATED))
        assert [round(sample.duration_ms) for _, sample in here.samples] == [100] * 6
        assert all(sample.probe and sample.outcome is AttemptOutcome.OK for _, sample in here.samples)
        assert here.watched == {"a", "b"}
        await asyncio.sleep(3400)
        assert len(here.server.called) == 6
        await asyncio.sleep(400)
        assert len(here.server.called) == 12
        assert here.server.sessions == 2


@pytest.mark.parametrize(("era", "method"), [(Era.MODERN, "server/discover"), (Era.LEGACY, "ping")])
async def test_a_round_trip_without_a_tool_is_measured_beside_each_probe(era: Era, method: str) -> None:
    async with world(era=era) as here:
        here.hold("a")
        await asyncio.sleep(60)
        assert here.server.baselines == [method] * 3
        assert here.round_trip == BASELINE * 1000


@pytest.mark.parametrize(
    "answer",
    [
        Raw(b'{"content":[{"type":"text","text":"no such city"}],"isError":true}'),
        Raw(b'{"resultType":"input_required"}'),
        RpcError(-32602, "Invalid params"),
        RpcError(-32603, "Internal error"),
        HttpRefused("too many", status=429),
    ],
)
async def test_failures_that_may_be_of_the_arguments_say_nothing_about_a_tool(answer: Raw | McpError) -> None:
    async with world() as here:
        if isinstance(answer, McpError):
            here.server.failing["a"] = answer
        else:
            here.server.answer = answer
        here.hold("a")
        await asyncio.sleep(60)
        assert here.samples == []
        assert len(here.server.called) == 2, "it is not asked again and again"
        assert here.verdict() == (False, Cause.PROBES_FAILED)
        here.hide("a")
        await asyncio.sleep(60)
        assert len(here.server.called) == 2, "nor while it is hidden"
        assert here.watched == frozenset()


@pytest.mark.parametrize("error", [Timeout("late", sent=True), HttpRefused("broken", status=503), BadJson("NaN")])
async def test_failures_of_the_server_count_against_its_tool(error: McpError) -> None:
    outcome = AttemptOutcome.UNREADABLE if isinstance(error, BadJson) else AttemptOutcome.BAD
    async with world(failing={"a": error}) as here:
        here.hold("a")
        await asyncio.sleep(60)
        assert {sample.outcome for _, sample in here.samples} == {outcome}


async def test_an_internal_error_counts_where_the_arguments_were_given() -> None:
    async with world(failing={"a": RpcError(-32603, "Internal error")}) as here:
        here.hold("a", given=True)
        await asyncio.sleep(60)
        assert [sample.outcome for _, sample in here.samples] == [AttemptOutcome.BAD, AttemptOutcome.BAD]


async def test_a_hidden_tool_is_probed_every_ten_seconds_and_every_two_once_it_is_in_time() -> None:
    async with world(seconds={"a": 0.4}) as here:
        here.hold("a", "b")
        await asyncio.sleep(30)
        here.hide("a", 300.0)
        await asyncio.sleep(35)
        slow = here.calls("a")[3:]
        assert [round(after - before) for before, after in itertools.pairwise(slow)] == [10, 10]
        here.server.seconds["a"] = 0.1
        await asyncio.sleep(20)
        fast = here.calls("a")[6:]
        assert len(fast) >= 5
        assert {round(after - before) for before, after in itertools.pairwise(fast)} == {2}
        here.show("a")
        seen = len(here.server.called)
        await asyncio.sleep(300)
        assert len(here.server.called) == seen
        assert len(here.calls("b")) == 3


async def test_a_hidden_tool_that_probes_do_not_speak_for_is_probed_every_ten_seconds_all_the_same() -> None:
    async with world(seconds={"a": 0.1}) as here:
        here.hold("a")
        await asyncio.sleep(30)
        here.hide("a", 0.0)
        await asyncio.sleep(45)
        probes = here.calls("a")[3:]
        assert [round(after - before) for before, after in itertools.pairwise(probes)] == [10, 10, 10]


async def test_a_tool_that_stays_slow_is_probed_less_and_less() -> None:
    async with world(seconds={"a": 0.8}) as here:
        here.hold("a")
        await asyncio.sleep(10)
        here.hide("a")
        await asyncio.sleep(600)
        first = len(here.calls("a"))
        await asyncio.sleep(2700)
        later = len(here.calls("a")) - first
    assert 37 <= first <= 40, "each takes 0.8 s, so that there are 16 s between them"
    assert 80 <= later <= 120, "2,700 s would be 270 probes"


async def test_probes_in_time_that_bring_nothing_back_slow_down_again() -> None:
    async with world() as here:
        here.hold("a")
        await asyncio.sleep(10)
        here.hide("a")
        await asyncio.sleep(600)
        assert len(here.calls("a")) <= 3 + 30 + 55


async def test_a_session_is_kept_while_a_tool_is_watched() -> None:
    async with world(seconds={"a": 0.8}) as here:
        here.hold("a")
        await asyncio.sleep(5)
        here.hide("a")
        await asyncio.sleep(100)
        assert len(here.calls("a")) == 7
        assert here.server.sessions == 1


def in_share(here: World) -> bool:
    """Whether from each call on, calls took at most a twentieth of the time plus one second."""
    starts = [at for at, _ in here.server.called]
    took = here.server.took
    return all(
        sum(took[first:last]) <= 0.05 * (starts[last] - starts[first]) + 1.001
        for first, last in itertools.combinations(range(len(starts)), 2)
    )


@pytest.mark.parametrize("seconds", [0.005, 0.15, 0.3, 0.6, 1.0, 3.0, 4.9])
async def test_probes_take_a_twentieth_of_a_tools_time_at_most_whatever_they_are_made_for(seconds: float) -> None:
    async with world(seconds={"a": seconds}) as here:
        here.hold("a", samples=10, interval=60.0)  # a round hardly ends before the next one is due
        here.hide("a", 10_000.0)  # a tier that needs probes to list the tool again
        await asyncio.sleep(1800)
    assert len(here.server.called) >= 18
    assert in_share(here)


async def test_a_tool_that_takes_three_seconds_is_probed_once_a_minute_and_keeps_no_other_one_waiting() -> None:
    async with world(seconds={"slow": 3.0, "quick": 0.005}) as here:
        here.hold("slow", "quick", samples=3)
        await asyncio.sleep(5)
        assert len(here.calls("quick")) == 3
        assert here.verdict() == (True, Cause.CALIBRATED), "each was probed"
        await asyncio.sleep(300)
        slow = here.calls("slow")
        assert [round(after - before) for before, after in itertools.pairwise(slow)] == [60, 60]


async def test_a_fast_tool_may_be_a_second_ahead_of_its_share_and_waits_for_it_afterwards() -> None:
    async with world(seconds={"a": 0.2}) as here:
        here.hold("a", samples=50)
        await asyncio.sleep(100)
        calls = here.calls("a")
    assert calls[4] < 2.0
    assert [round(after - before) for before, after in itertools.pairwise(calls[5:])] == [4] * (len(calls) - 6)


async def test_a_server_that_comes_and_goes_is_given_no_new_share_of_its_tools_time() -> None:
    async with world(seconds={"a": 3.0}) as here:
        for start in range(100):
            here.hold("a", revision=f"after start {start}")
            await asyncio.sleep(2.5)  # the server disappears during its first probe
            if start % 2:
                here.prober.drop(KEY)
    assert 5 <= len(here.server.called) <= 12
    assert sum(here.server.took) <= 0.05 * 300
    assert in_share(here)


async def test_a_tool_that_takes_its_server_down_is_not_probed_again() -> None:
    async with world(failing={"a": ConnectionLost("gone", sent=True)}) as here:
        here.hold("a", "b")
        await asyncio.sleep(30)
        assert (len(here.calls("a")), len(here.calls("b"))) == (1, 3)
        for start in range(5):
            here.hold("a", "b", revision=f"after start {start}")
            await asyncio.sleep(30)
        assert len(here.calls("a")) == 1
        assert here.verdict() == (False, Cause.PROBES_FAILED)
        del here.server.failing["a"]
        await asyncio.sleep(7300)
        assert here.verdict() == (True, Cause.CALIBRATED)


async def test_a_server_that_goes_is_probed_no_more_and_its_tools_are_not_watched() -> None:
    async with world(seconds={"a": 30.0}) as here:
        here.hold("a")
        await asyncio.sleep(1)
        here.prober.drop(KEY)
        await asyncio.sleep(100)
        assert here.server.running == 0
        assert len(here.server.called) == 1
        assert here.watched == frozenset()
        assert here.verdict() is None


async def test_a_server_that_hangs_keeps_no_other_one_waiting() -> None:
    async with world(seconds={"a": 30.0}) as here:
        for number in range(40):
            key = ServerKey("team", f"slow-{number}")
            probes = (PlannedProbe("a", b"{}", False, 60.0),)
            here.prober.hold(
                key, ProbeSet("u", HttpEndpoint(url="http://x"), "", "", ProbePlan(probes), 1, 3600.0), None
            )
        await asyncio.sleep(1)
        here.hold("b")
        await asyncio.sleep(6)
        assert len(here.calls("b")) >= 1


@pytest.mark.parametrize(
    ("plan", "cause"),
    [
        (ProbePlan(policy="Never"), Cause.CALIBRATION_DISABLED),
        (ProbePlan(tools_without_arguments=("odd",)), Cause.NOTHING_TO_PROBE),
        (ProbePlan(lacks_user_token=True), Cause.NOTHING_TO_PROBE),
    ],
)
async def test_a_server_without_probes_says_why(plan: ProbePlan, cause: Cause) -> None:
    async with world() as here:
        here.prober.hold(KEY, ProbeSet("u", HttpEndpoint(url="http://x"), "", "", plan, 1, 60.0), None)
        assert here.verdict() == (False, cause)
        await asyncio.sleep(100)
        assert here.server.sessions == 0
