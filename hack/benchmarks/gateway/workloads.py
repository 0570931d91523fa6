"""The kinds of clients and servers that a call is measured with: one row of the table each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from gateway.gateways import ALIKE, OWN, PROMPT, STRICT, STRICT_MEMBERS, VERSIONS, Target
from rig.loadtools import AWAKE_MICROSECONDS, BARE, Load

SATURATED: Final = 64
"""Connections at which the hop's core is busy; most goals are about this row."""
LARGE_BYTES: Final = 10_000
AWAKE: Final = ("-y", str(AWAKE_MICROSECONDS))
KINDS: Final = {"plain": AWAKE, "sse": (*AWAKE, "-s"), "large": (*AWAKE, "-p", str(LARGE_BYTES)), "asleep": ()}
"""Kinds of upstream servers, and the options of mcpup for each."""
DECLARED: Final = '{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}'
"""Capabilities of the clients of IDEs: Claude Code, VS Code and Cursor declare these or a part of them."""
STRICT_ARGUMENTS: Final = msgspec.json.encode(STRICT_MEMBERS).decode()[1:-1]
"""Members beside the text, for the tool STRICT."""
STREAMS_FIRST: Final = "text/event-stream, application/json"
REST_PATH: Final = "/v1/tool-calls"


@dataclass(frozen=True)
class Workload:
    """Load of the clients. `upstream` is one of KINDS."""

    name: str
    upstream: str = "plain"
    server: str = ""
    """`ERA-SERVER` is called, where it is not named by its kind."""
    tool: str = "echo"
    """Or a prompt, where `kind` is `prompt`."""
    members: str = ""
    """Raw JSON members of the arguments beside the text."""
    tools: int = 0
    connections: tuple[int, ...] = (SATURATED,)
    eras: tuple[str, ...] = tuple(VERSIONS)
    kind: str = "call"
    """Kind of the `Load`."""
    capabilities: str = ""
    token: bool = False
    accept: str = ""
    beside_bare: bool = True
    """Whether the plain client is measured again in the same rounds, for ratios to it."""

    @property
    def by_hops(self) -> bool:
        """Whether nginx and the upstream alone can answer it too."""
        return self.kind != "rest"

    def called(self, era: str) -> str:
        """Name that the gateway exposes to a client of `era`."""
        kind = self.server or ("" if self.upstream == "plain" else self.upstream)
        server = f"{era}-{kind}" if kind else era
        return f"{era}%d__{self.tool}" if self.tools else f"{server}__{self.tool}"

    def load(self, target: Target, era: str, connections: int, window: tuple[float, float]) -> Load:
        """Clients of `era` for `target`; `window` is seconds of measurement and of warm-up."""
        rest = self.kind == "rest"
        return Load(
            target.port,
            REST_PATH if rest else "/mcp",
            self.called(era) if target.prefixed or self.tools else self.tool,
            BARE if rest else VERSIONS[era],
            connections,
            *window,
            members=self.members,
            tools=self.tools,
            awake=self.upstream != "asleep",
            kind=self.kind,
            capabilities=self.capabilities,
            token=self.token,
            accept=self.accept,
        )


PLAIN: Final = Workload("small JSON", connections=(1, 16, SATURATED, 256), beside_bare=False)
CAPABLE: Final = Workload("capabilities declared", capabilities=DECLARED, eras=("legacy",), connections=(1, SATURATED))
TOKEN: Final = Workload("progress token", token=True, connections=(1, SATURATED))
STREAMED: Final = Workload("event stream to the client", "sse", accept=STREAMS_FIRST, eras=("legacy",))
LARGE: Final = Workload("10 kB result", "large")
PER_CLIENT: Final = Workload("PerClient session", server=OWN, eras=("legacy",))
PROMPTS: Final = Workload("prompts/get", tool=PROMPT, kind="prompt")
REST: Final = Workload("POST /v1/tool-calls", kind="rest", eras=("legacy",))
CLIENTS: Final = (CAPABLE, TOKEN, STREAMED, PER_CLIENT, PROMPTS, REST)
"""Kinds of clients beside the plain one."""
WORKLOADS: Final = (
    PLAIN,
    *CLIENTS,
    replace(PLAIN, name="small JSON, client and server sleep", upstream="asleep", connections=(SATURATED,)),
    Workload("small SSE", "sse", beside_bare=False),
    replace(LARGE, beside_bare=False),
    Workload("2 kB arguments", tool=STRICT, members=STRICT_ARGUMENTS, beside_bare=False),
    Workload(f"{ALIKE} servers in turn", tools=ALIKE, beside_bare=False),
)
BRIEF: Final = (
    tuple(workload for workload in WORKLOADS if workload.name in ("small JSON", "small SSE", "10 kB result")) + CLIENTS
)
"""Workloads of --quick: every kind of client, and every kind of answer."""
OF_PEERS: Final = tuple(
    workload
    for workload in WORKLOADS
    if workload.name in ("small SSE", "10 kB result") or workload in (CAPABLE, TOKEN, STREAMED, PROMPTS)
)
"""Rows beside PLAIN that a proxy in front of one server may serve."""


def slug(name: str) -> str:
    """The name as a word of the command line."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in name).split())
