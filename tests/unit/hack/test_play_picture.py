"""Picture of a played session: hidden items are grey, and calls are bars."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from speech.play_picture import SERVERS, TIERS, draw
from spokenplay import ANSWERED, CANCELLED, REFUSED, PlayedCall, PlayTrace

ROLL = "dice-roller__roll"
SEARCH = "web-search__search"
CALL = PlayedCall("banter", ROLL, 0.5, 0.52, ANSWERED, "{}", shown=True)
TRACE = PlayTrace(
    "An engine & more",
    steps=[(0.0, "greeting"), (1.0, "deep")],
    shown=[(0.0, "fast", frozenset({ROLL})), (1.0, "deep", frozenset({ROLL, SEARCH}))],
    calls=[CALL],
    ended=2.0,
)


def texts(*traces: PlayTrace) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(draw(traces)).iter("{http://www.w3.org/2000/svg}text")]


def rectangles(trace: PlayTrace, fill: str) -> list[tuple[float, float]]:
    """Left and right ends of the rectangles of one colour, without those of the tiers' strip."""
    shapes = ElementTree.fromstring(draw([trace])).iter("{http://www.w3.org/2000/svg}rect")
    return [
        (float(each.attrib["x"]), float(each.attrib["x"]) + float(each.attrib["width"]))
        for each in shapes
        if each.attrib["fill"] == fill and each.attrib["height"] != "16"
    ]


def test_a_server_is_coloured_while_the_model_has_tools_of_it() -> None:
    fast = rectangles(TRACE, TIERS["fast"])
    deep = rectangles(TRACE, TIERS["deep"])
    assert len(fast) == 1, "the web search is hidden in the fast tier"
    assert len(deep) == 2
    assert fast[0][1] == deep[0][0] == deep[1][0]


def test_calls_are_named_by_the_time_they_took_or_by_how_they_ended() -> None:
    slow = replace(CALL, name=SEARCH, began=0.1, ended=1.4)
    cancelled = replace(slow, name="memory__a", outcome=CANCELLED)
    refused = replace(slow, name="file-io__b", outcome=REFUSED)
    drawn = texts(replace(TRACE, calls=[CALL, replace(CALL, began=0.53, ended=0.54), slow, cancelled, refused]))
    assert {"20 ms + 10 ms", "1.3 s", "cancelled", "refused"} <= {*drawn}


def test_each_session_has_a_panel_with_all_servers() -> None:
    drawn = texts(TRACE, replace(TRACE, engine="Another"))
    assert [text for text in drawn if text in ("An engine & more", "Another")] == ["An engine & more", "Another"]
    assert all(drawn.count(server) == 2 for server in SERVERS)
