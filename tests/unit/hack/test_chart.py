"""The chart of a benchmark: it is well-formed, and the length of a bar is proportional to its value."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from rig.chart import WIDTH, Bar, bars
from rig.harness import Sample

SVG = "{http://www.w3.org/2000/svg}"


def lengths(svg: str) -> list[float]:
    root = ElementTree.fromstring(svg)  # our own
    return [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") if bar.attrib["width"] != "100%"]


def test_factors_of_ten_are_equal_steps() -> None:
    values = (10, 100, 1000)
    widths = lengths(bars("Calls", [Bar(str(value), Sample(value, value, value)) for value in values]))
    assert widths == [1, WIDTH / 2, WIDTH]


def test_names_are_text_whatever_they_hold() -> None:
    svg = bars("a < b", [Bar('<script>"&', Sample(2, 1, 3), ratio=0.5)])
    texts = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert '<script>"&' in texts
    assert "2 (0.500 × nginx)" in texts
