"""Tool calls while REST conversions run: how fast, how many, and what the p99 of a call moves by.

Two gateways over one echoing upstream: one converts in processes (the default), one in its own thread. How they are
called says `gateway.conversions`, which `hack/bench gateway` measures the gateway of its own calls by.
"""

from __future__ import annotations

import os
from pathlib import Path

from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.meta import ServerKey
from gateway.conversions import WINDOWS, Beside, Case, goals, measure, moved
from gateway.gateways import Target, catalog, gateway_over, start_upstream
from rig.harness import Report, Sample, Settings
from rig.processes import Stage, become_realtime

ERA = "modern"
IN_THREAD = 2
"""Windows per round of the gateway without processes. Few are enough, because the difference is large."""


def start(stage: Stage, processes: int, documents: Path) -> Target:
    """Start a gateway with `processes` conversion processes."""
    name = f"gateway-{processes}"
    return gateway_over(stage, documents, None, name=name, FAIRLEAD_REST_PROCESSES=str(processes))


def measured(settings: Settings) -> dict[str, dict[Case, Beside]]:
    """Results by the place of the conversions."""
    with Stage() as stage:
        core = max(os.sched_getaffinity(0))
        upstream = start_upstream(stage, "upstream", core)
        documents = stage.folder / "documents"
        documents.mkdir()
        name = catalog_name(ServerKey("default", ERA))
        (documents / f"{name}.json").write_bytes(encode(catalog(ERA, upstream.port)))
        apart, here = start(stage, 1, documents), start(stage, 0, documents)
        windows = 3 if settings.quick else settings.rounds * WINDOWS
        in_thread = 1 if settings.quick else settings.rounds * IN_THREAD
        return {
            "processes": measure(stage, apart, ERA, upstream.pid, windows),
            "thread": measure(stage, here, ERA, upstream.pid, in_thread),
        }


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start or an answer is wrong."""
    if settings.realtime:
        become_realtime()
    measurement = measured(settings)
    report = Report("rest", goals=goals(measurement["processes"]))
    for where, cases in measurement.items():
        for (connections, size), beside in cases.items():
            outcomes = beside.outcomes.values()
            report.rows.append(
                {
                    "conversions in": where,
                    "connections": connections,
                    "conversions": size,
                    "conversions/s": Sample.of(beside.rates) if beside.rates else None,
                    "calls/s": Sample.of(o.calls_per_second for o in outcomes),
                    "p50 µs": Sample.of(o.p50 for o in outcomes),
                    "p99 µs": Sample.of(o.p99 for o in outcomes),
                    "foreign cores": Sample.of(o.foreign for o in outcomes),
                    "× p99 alone": moved(cases, connections, size),
                }
            )
    return report
