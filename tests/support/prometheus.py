"""Debian's Prometheus on a free port, with the shipped alert rules, whose periods are shortened to seconds.

async with prometheus(folder, {"gateway": 9464}, rules) as watch:
    await watch.until_firing("FairleadServerDown")
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

from ports import free_port
from waiting import until_async

PACE: Final = "1s"
WINDOW: Final = "8s"
"""Replaces every range in a rule, and the dashboard's rate interval. Covers several scrapes."""
_RANGE: Final = re.compile(r"\[(\d+[smhd]|\$__\w+)\]")
_FOR: Final = re.compile(r"^(\s+for:) .*$", re.MULTILINE)


def program(name: str) -> str:
    """Path of Prometheus. If it is not installed, skips the test, or fails it in CI."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed (Debian: apt-get install prometheus)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def lint(exposition: bytes) -> str:
    """Complaints of `promtool check metrics` about an answer of /metrics; empty if there are none."""
    words = [program("promtool"), "check", "metrics"]
    done = subprocess.run(words, input=exposition, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode() or ("" if done.returncode == 0 else f"promtool ended with {done.returncode}")


def hurry_rules(rules: str, thresholds: Mapping[str, tuple[str, str]]) -> str:
    """The rules with ranges and waiting times of seconds. `thresholds` maps an alert to a text in its expression, and
    the replacement of this text.
    """
    quick = _FOR.sub(r"\1 1s", _RANGE.sub(f"[{WINDOW}]", rules))
    head, *alerts = re.split(r"(?=^      - alert: )", quick, flags=re.MULTILINE)
    for alert, (slow, fast) in thresholds.items():
        index = next(i for i, text in enumerate(alerts) if text.startswith(f"      - alert: {alert}\n"))
        assert slow in alerts[index], f"{alert} has no {slow}"
        alerts[index] = alerts[index].replace(slow, fast)
    return head + "".join(alerts)


def hurried_query(expr: str) -> str:
    """A query of the dashboard, as Grafana sends it for a short period and all servers."""
    return _RANGE.sub(f"[{WINDOW}]", expr).replace("$server", ".*")


@dataclass
class Prometheus:
    """A running Prometheus."""

    port: int

    async def query(self, expr: str) -> list[Any]:
        """Instant vector of an expression. Raises AssertionError if it cannot be evaluated."""
        return list((await self._get(f"/api/v1/query?query={quote(expr, safe='')}"))["data"]["result"])

    async def exemplars(self, expr: str, seconds: float) -> list[dict[str, str]]:
        """Labels of the exemplars of series in the last `seconds`."""
        now = time.time()
        path = f"/api/v1/query_exemplars?query={quote(expr, safe='')}&start={now - seconds}&end={now + 1}"
        return [each["labels"] for series in (await self._get(path))["data"] for each in series["exemplars"]]

    async def firing_alerts(self) -> set[str]:
        """Alerts that fire now."""
        return {series["metric"]["alertname"] for series in await self.query('ALERTS{alertstate="firing"}')}

    async def recent_alerts(self) -> set[str]:
        """Alerts that have fired in the last half hour."""
        series = await self.query('count_over_time(ALERTS{alertstate="firing"}[30m])')
        return {sample["metric"]["alertname"] for sample in series}

    async def until_fired(self, expected: Iterable[str], *, seconds: float = 90.0) -> None:
        """Wait until each of these alerts has fired."""
        missing = set(expected)

        async def look() -> bool:
            missing.difference_update(await self.recent_alerts())
            return not missing

        try:
            await until_async("alerts", look, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"not fired within {seconds:g} s: {sorted(missing)}") from None

    async def until_quiet(self, *, seconds: float = 120.0) -> None:
        """Wait until no alert fires."""
        left: list[Any] = []

        async def look() -> bool:
            left[:] = await self.query('ALERTS{alertstate="firing"}')
            return not left

        try:
            await until_async("silence", look, seconds=seconds)
        except AssertionError:
            raise AssertionError(
                f"still not quiet after {seconds:g} s: {[alert['metric'] for alert in left]}"
            ) from None

    async def _get(self, path: str) -> Any:
        await asyncio.sleep(0.2)  # it needs the CPU more than a polling client does
        return await asyncio.to_thread(self._fetch, path)

    def _fetch(self, path: str) -> Any:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            document = json.loads(answer.read())
        assert document["status"] == "success", document
        return document


@contextlib.asynccontextmanager
async def prometheus(folder: Path, targets: Mapping[str, int], rules: str) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes ports of this machine, by job. `folder` has to exist and is used only by it."""
    binary = program("prometheus")
    port = free_port()
    (folder / "rules.yaml").write_text(rules)
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{there}"]}]} for job, there in targets.items()
    ]
    pace = {"scrape_interval": PACE, "scrape_timeout": PACE, "evaluation_interval": PACE}
    (folder / "prometheus.yaml").write_text(
        yaml.safe_dump({"global": pace, "rule_files": ["rules.yaml"], "scrape_configs": jobs})
    )
    process = await asyncio.create_subprocess_exec(
        binary,
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--query.lookback-delta=5s",
        "--log.level=warn",
        "--enable-feature=exemplar-storage",
    )
    watch = Prometheus(port)

    async def answers() -> bool:
        with contextlib.suppress(OSError):
            await watch.query("vector(1)")
            return True
        assert process.returncode is None, f"prometheus ended with {process.returncode}"
        return False

    try:
        await until_async("prometheus answers", answers)
        yield watch
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
