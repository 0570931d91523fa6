"""Draws the panels of the Grafana dashboard as one SVG, from the data of a running Prometheus.

    python hack/dashboard.py OUT.svg [--prometheus http://127.0.0.1:9090] [--minutes 15] [--row NAME]…

Queries, titles, legends, units and positions come from the dashboard's JSON; the drawing differs from Grafana's. Panels
without data are drawn empty and named on standard error, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

DASHBOARD: Final = Path(__file__).resolve().parents[1] / "charts/fairlead/dashboards/fairlead.json"
COLUMN, LINE = 50, 26
"""Pixels of one unit of the dashboard's grid."""
COLOURS: Final = ("#3274d9", "#e0752d", "#2f9e63", "#a352cc", "#c4162a", "#b8860b", "#0f8b8d", "#8f3bb8", "#737373")
LEGENDS: Final = 6
"""Maximum number of series in a panel's legend."""
STEPS: Final = 120
_WINDOW: Final = re.compile(r"\$__(rate_interval|range|interval)")
_VARIABLE: Final = re.compile(r"\$server|\$\{server[^}]*\}")


@dataclass(frozen=True)
class Series:
    """One line of a panel."""

    name: str
    points: Sequence[tuple[float, float]]
    """Points as seconds since the epoch and value, without those that are not numbers."""


Query = Callable[[str], Sequence[Mapping[str, Any]]]
"""Result of a range query of Prometheus' HTTP API."""


def query_of(url: str, begin: float, end: float) -> Query:
    """Function for range queries of a Prometheus between two times."""
    opener = build_opener(ProxyHandler({}))

    def query(expr: str) -> Sequence[Mapping[str, Any]]:
        words = {"query": expr, "start": begin, "end": end, "step": max((end - begin) / STEPS, 1)}
        with opener.open(f"{url}/api/v1/query_range?{urlencode(words)}", timeout=60) as answer:
            result: Sequence[Mapping[str, Any]] = json.loads(answer.read())["data"]["result"]
        return result

    return query


def panels_of(dashboard: Mapping[str, Any], rows: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    """Panels in their order; only those of `rows` if it is not empty."""
    panels, wanted = [], not rows
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            wanted = not rows or panel["title"] in rows
        if wanted:
            panels.append(panel)
    return panels


def series_of(panel: Mapping[str, Any], query: Query, window: str) -> list[Series]:
    """All lines of a panel. `window` replaces Grafana's interval variables."""
    all_series = []
    for target in panel.get("targets", ()):
        for result in query(_VARIABLE.sub(".*", _WINDOW.sub(window, target["expr"]))):
            numbers = [(float(at), float(value)) for at, value in result["values"]]
            points = [(at, value) for at, value in numbers if math.isfinite(value)]  # the result of a division by zero
            all_series.append(Series(_legend(target.get("legendFormat", ""), result["metric"]), points))
    return all_series


def picture(
    panels: Sequence[Mapping[str, Any]], data: Mapping[int, Sequence[Series]], span: tuple[float, float]
) -> str:
    """The SVG. `data` is by index of the panel; `span` is the first and the last second."""
    top = min(panel["gridPos"]["y"] for panel in panels)
    bottom, parts = top, []
    for index, panel in enumerate(panels):
        grid = panel["gridPos"]
        x, y, width, height = grid["x"] * COLUMN, (grid["y"] - top) * LINE, grid["w"] * COLUMN, grid["h"] * LINE
        bottom = max(bottom, grid["y"] + grid["h"])
        if panel["type"] == "row":
            parts.append(f'<text class="row" x="{x + 6}" y="{y + 19}">{escape(panel["title"])}</text>')
            continue
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "short")
        parts.append(
            f'<g transform="translate({x + 3},{y + 3})"><rect width="{width - 6}" height="{height - 6}" rx="3"/>'
        )
        parts.append(f'<text class="title" x="9" y="18">{escape(panel["title"])}</text>')
        draw = _stat if panel["type"] == "stat" else _lines
        parts += [*draw(data.get(index, ()), width - 6, height - 6, unit, span), "</g>"]
    size = f'width="{24 * COLUMN}" height="{(bottom - top) * LINE}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{_STYLE}{"".join(parts)}</svg>\n'


_STYLE: Final = (
    "<style>svg{background:#f4f5f5;font-family:sans-serif}rect{fill:#fff;stroke:#dcdcdc}"
    ".row{font-size:15px;font-weight:bold}.title{font-size:12px;font-weight:bold}"
    ".small{font-size:10px;fill:#555}.big{font-size:26px;fill:#2f9e63}.axis{stroke:#e3e3e3}"
    "polyline{fill:none;stroke-width:1.5}</style>"
)


def _stat(series: Sequence[Series], width: int, height: int, unit: str, span: tuple[float, float]) -> list[str]:
    parts, each = [], width / max(len(series), 1)
    for index, line in enumerate(series):
        x = each * (index + 0.5)
        number = format_value(line.points[-1][1], unit) if line.points else "-"
        parts.append(f'<text class="big" text-anchor="middle" x="{x:.0f}" y="62">{number}</text>')
        parts.append(f'<text class="small" text-anchor="middle" x="{x:.0f}" y="82">{escape(line.name)}</text>')
    return parts or [_nothing(width, height)]


def _lines(series: Sequence[Series], width: int, height: int, unit: str, span: tuple[float, float]) -> list[str]:
    if not series:
        return [_nothing(width, height)]
    values = [value for line in series for _, value in line.points] or [0.0]
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1
    left, right, top, bottom = 62.0, width - 10.0, 28.0, height - 32.0
    parts = []
    for part in (0.0, 0.5, 1.0):
        y = bottom - part * (bottom - top)
        parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        value = format_value(low + part * (high - low), unit)
        parts.append(f'<text class="small" text-anchor="end" x="{left - 5}" y="{y + 3:.1f}">{value}</text>')
    begin, seconds = span[0], max(span[1] - span[0], 1.0)
    for index, line in enumerate(series):
        wide, tall = (right - left) / seconds, (bottom - top) / (high - low)
        xy = " ".join(f"{left + (at - begin) * wide:.1f},{bottom - (v - low) * tall:.1f}" for at, v in line.points)
        parts.append(f'<polyline stroke="{COLOURS[index % len(COLOURS)]}" points="{xy}"/>')
    names = [
        f'<tspan fill="{COLOURS[index % len(COLOURS)]}">▬</tspan> {escape(line.name)}   '
        for index, line in enumerate(series[:LEGENDS])
    ]
    more = f"… {len(series) - LEGENDS} more" if len(series) > LEGENDS else ""
    parts.append(f'<text class="small" xml:space="preserve" x="9" y="{height - 10}">{"".join(names)}{more}</text>')
    return parts


def _nothing(width: int, height: int) -> str:
    return f'<text class="small" text-anchor="middle" x="{width / 2}" y="{height / 2 + 6}">No data</text>'


def format_value(value: float, unit: str) -> str:
    """A value with its unit, in the notation of Grafana's units."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return f"{value / (1 << 20):.4g} MiB"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    sign = {"reqps": "/s", "ops": "/s", "currencyUSD": " $"}.get(unit, "")
    return f"{value:.4g}{sign}"


def _legend(form: str, labels: Mapping[str, str]) -> str:
    if form in ("", "__auto"):
        return ", ".join(value for name, value in labels.items() if name != "__name__")
    return re.sub(r"\{\{ *(\w+) *\}\}", lambda match: labels.get(match[1], ""), form)


def main() -> int:
    """Return exit code 1 if a panel has no data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--window", default="1m", help="for Grafana's intervals: four scrapes or more")
    parser.add_argument("--row", action="append", default=[], help="only the panels below this title")
    options = parser.parse_args()
    end = time.time()
    begin = end - options.minutes * 60
    panels = panels_of(json.loads(DASHBOARD.read_text()), options.row)
    query = query_of(options.prometheus, begin, end)
    data = {index: series_of(panel, query, options.window) for index, panel in enumerate(panels)}
    options.file.write_text(picture(panels, data, (begin, end)))
    empty = [each["title"] for index, each in enumerate(panels) if each["type"] != "row" and not data[index]]
    for title in empty:
        print(f"no data: {title}", file=sys.stderr)
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
