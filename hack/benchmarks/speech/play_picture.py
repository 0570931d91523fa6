"""Draws a played session: the tools that the model was shown over time, and its calls. SVG, without a library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from spokenplay import CANCELLED, REFUSED, PlayedCall, PlayTrace

WIDTH: Final = 900
LEFT: Final = 130
RIGHT: Final = 26
ROW: Final = 21
HEAD: Final = 62
"""Height of a panel's head: its name, the numbers of the steps and the strip of tiers."""
GAP: Final = 18
LABEL: Final = 34
"""Space for the label of a call."""
FOOT: Final = 50
SERVERS: Final = (
    "dice-roller",
    "memory",
    "rules-lookup",
    "session-manager",
    "file-io",
    "music-ambiance",
    "image-gen",
    "web-search",
)
TIERS: Final = {"fast": "#bfe3c6", "standard": "#f6e3a5", "deep": "#c9d3f5"}
CALL, LATE, REFUSAL, TEXT, FAINT = "#24527a", "#b35900", "#b3261e", "#1f2328", "#5b636b"


def draw(traces: Sequence[PlayTrace]) -> str:
    """Draw one panel per session, on a common time scale."""
    scale = (WIDTH - LEFT - RIGHT) / max(trace.ended for trace in traces)
    panel = HEAD + ROW * len(SERVERS) + GAP
    height = panel * len(traces) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif">',
        "<title>Tiers, tools and calls of a played session, by engine</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
    ]
    for number, trace in enumerate(traces):
        parts += _panel(trace, number * panel, scale)
    parts += _legend(traces[0], panel * len(traces))
    return "\n".join([*parts, "</svg>", ""])


def _panel(trace: PlayTrace, top: float, scale: float) -> Iterator[str]:
    bottom = top + HEAD + ROW * len(SERVERS)
    yield _text(12, top + 17, trace.engine, _TextStyle(size=14, weight="bold"))
    yield _text(LEFT - 8, top + 53, "tier", _TextStyle(FAINT, anchor="end"))
    ends = [*(at for at, _, _ in trace.shown[1:]), trace.ended]
    for (began, tier, _), end in zip(trace.shown, ends, strict=True):
        yield _rect(LEFT + began * scale, top + 41, (end - began) * scale, 16, TIERS.get(tier, "#eeeeee"))
        if (end - began) * scale > 7 * len(tier):
            yield _text(LEFT + began * scale + 4, top + 53, tier)
    for row, server in enumerate(SERVERS):
        yield from _row(trace, server, top + HEAD + row * ROW, scale)
    for number, (at, _) in enumerate(trace.steps, 1):
        x = LEFT + at * scale
        yield f'<path d="M{x:.1f} {top + 36:.1f}V{bottom:.1f}" stroke="{FAINT}" stroke-dasharray="2 3"/>'
        yield _text(x, top + 32, str(number), _TextStyle(FAINT, anchor="middle"))
    for second in range(int(trace.ended) + 1):
        yield _text(LEFT + second * scale, bottom + 13, f"{second} s", _TextStyle(FAINT, 10, "middle"))


def _row(trace: PlayTrace, server: str, top: float, scale: float) -> Iterator[str]:
    """Draw the row of a server. It is coloured while the model has some or all of its tools."""
    yield _text(LEFT - 8, top + 14, server, _TextStyle(anchor="end"))
    yield _rect(LEFT, top + 2, trace.ended * scale, ROW - 4, "#f3f4f6")
    most = max(_count(tools, server) for _, _, tools in trace.shown)
    ends = [*(at for at, _, _ in trace.shown[1:]), trace.ended]
    for (began, tier, tools), end in zip(trace.shown, ends, strict=True):
        count = _count(tools, server)
        if count:
            share = 0.45 + 0.55 * count / most
            yield _rect(LEFT + began * scale, top + 2, (end - began) * scale, ROW - 4, TIERS.get(tier, "#ddd"), share)
    for near in _together([call for call in trace.calls if call.name.partition("__")[0] == server], scale):
        yield from _calls(near, top, scale)


def _together(calls: Sequence[PlayedCall], scale: float) -> Iterator[list[PlayedCall]]:
    """Calls of one row, in groups of those that are too close together for separate labels."""
    near: list[PlayedCall] = []
    for call in calls:
        if near and ((call.began - near[-1].ended) * scale > LABEL or call.outcome != near[-1].outcome):
            yield near
            near = []
        near.append(call)
    if near:
        yield near


def _calls(calls: Sequence[PlayedCall], top: float, scale: float) -> Iterator[str]:
    last = calls[-1]
    fill = REFUSAL if last.outcome == REFUSED else LATE if last.outcome == CANCELLED else CALL
    for call in calls:
        x = LEFT + call.began * scale
        if call.outcome == REFUSED:
            yield f'<path d="M{x - 4:.1f} {top + 6:.1f}l9 9m0 -9l-9 9" stroke="{REFUSAL}" stroke-width="2.2"/>'
        else:
            width = max((call.ended - call.began) * scale, 3)
            yield _rect(x, top + 5, width, ROW - 10, LATE if call.outcome == CANCELLED else CALL)
    end = LEFT + max(last.ended * scale, last.began * scale + 5)
    title = " + ".join(_call_label(call) for call in calls)
    if end + 7 * len(title) > WIDTH:
        yield _text(LEFT + calls[0].began * scale - 4, top + 15, title, _TextStyle(fill, 11, "end"))
    else:
        yield _text(end + 4, top + 15, title, _TextStyle(fill, 11))


def _call_label(call: PlayedCall) -> str:
    """Text about the duration of a call, or about its failure."""
    ms = (call.ended - call.began) * 1000
    if call.outcome in (REFUSED, CANCELLED):
        return call.outcome
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def _legend(trace: PlayTrace, top: float) -> Iterator[str]:
    names = "   ".join(f"{number} {name}" for number, (_, name) in enumerate(trace.steps, 1))
    yield _text(LEFT, top + 16, names, _TextStyle(FAINT))
    caption = (
        "grey: hidden · pale: some tools of the server are shown · full: all · bars: calls, with the time they took"
    )
    yield _text(LEFT, top + 34, caption, _TextStyle(FAINT))


def _count(tools: frozenset[str], server: str) -> int:
    return sum(name.partition("__")[0] == server for name in tools)


def _rect(x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0) -> str:
    more = f' opacity="{opacity:.2f}"' if opacity < 1 else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height}" fill="{fill}"{more}/>'


class _TextStyle(NamedTuple):
    """Style of a text; empty attributes are left out."""

    fill: str = TEXT
    size: int = 12
    anchor: str = ""
    weight: str = ""


def _text(x: float, y: float, text: str, style: _TextStyle = _TextStyle()) -> str:  # noqa: B008 - it is immutable
    more = "".join(
        f' {name}="{value}"'
        for name, value in (("text-anchor", style.anchor), ("font-weight", style.weight), ("xml:space", "preserve"))
        if value
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{style.fill}" font-size="{style.size}"{more}>{escape(text)}</text>'
