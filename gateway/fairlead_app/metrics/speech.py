"""Prometheus metrics of speech sessions."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_app.metrics.exposition import cumulative_buckets
from fairlead_speech.metrics import SpeechMetrics


class SpeechCollector(Collector):
    """Metrics of the speech sessions of one gateway."""

    def __init__(self) -> None:
        self.metrics = SpeechMetrics()

    def collect(self) -> Iterable[Metric]:
        metrics = self.metrics
        active = GaugeMetricFamily("fairlead_speech_sessions_active", "Open speech sessions", labels=["engine"])
        for engine, number in [*metrics.active.items()]:
            active.add_metric([engine], number)
        text = (
            "Ended speech sessions by outcome: ok, cut, stalled, unreadable, provider_closed, drained, failed, refusals"
        )
        sessions = CounterMetricFamily("fairlead_speech_sessions", text, labels=["engine", "outcome"])
        text = "Frames of speech sessions, by direction: to_provider, to_client"
        frames = CounterMetricFamily("fairlead_speech_frames", text, labels=["engine", "direction"])
        text = "Tool calls in speech sessions, by outcome: ok, error, cancelled, or duplicate (a repeated id, not run)"
        calls = CounterMetricFamily("fairlead_speech_tool_calls", text, labels=["engine", "outcome"])
        text = "Changes of the tier of speech sessions, by the new tier"
        tiers = CounterMetricFamily("fairlead_speech_tier_changes", text, labels=["engine", "tier"])
        text = (
            "Tier changes delayed because a session's connection could not be replaced, by reason: no_handle, too_much"
        )
        waits = CounterMetricFamily("fairlead_speech_tier_waits", text, labels=["engine", "reason"])
        text = "Replacements of a speech session's connection by a resumption handle of the provider: ok, failed"
        resumed = CounterMetricFamily("fairlead_speech_resumptions", text, labels=["engine", "outcome"])
        text = "Turns answered by a cascaded engine instead of the provider, by outcome: ok, cancelled, error"
        routed = CounterMetricFamily("fairlead_speech_routed_turns", text, labels=["outcome"])
        for outcome, number in [*metrics.routed.items()]:
            routed.add_metric([outcome], number)
        text = "Filler phrases spoken while an answer took longer"
        fillers = CounterMetricFamily("fairlead_speech_fillers", text, labels=["engine"])
        for engine, number in [*metrics.fillers.items()]:
            fillers.add_metric([engine], number)
        text = "Audio transcribed by cascaded engines, in seconds, by engine"
        transcribed = CounterMetricFamily("fairlead_speech_transcribed_seconds", text, labels=["provider"])
        for name, seconds in [*metrics.transcribed_seconds.items()]:
            transcribed.add_metric([name], seconds)
        text = "Characters synthesized to speech by cascaded engines, by engine"
        spoken = CounterMetricFamily("fairlead_speech_synthesized_characters", text, labels=["provider"])
        for name, characters in [*metrics.synthesized_characters.items()]:
            spoken.add_metric([name], characters)
        text = "Time from the end of a user's turn to an engine's first audio, or first audio of the answer, in seconds"
        audio = HistogramMetricFamily("fairlead_speech_first_audio_seconds", text, labels=["audio"])
        for which, histogram in metrics.first_audio.items():
            audio.add_metric([which], *cumulative_buckets(histogram))
        counted = ((sessions, metrics.sessions), (frames, metrics.frames), (calls, metrics.calls))
        for family, counts in (
            *counted,
            (tiers, metrics.tier_changes),
            (waits, metrics.tier_waits),
            (resumed, metrics.resumptions),
        ):
            for labels, count in [*counts.items()]:
                family.add_metric([*labels], count)
        text = (
            "Time that a frame of a speech session spends in the gateway, including waits for a slow peer, in seconds"
        )
        delays = HistogramMetricFamily("fairlead_speech_frame_delay_seconds", text, labels=["direction"])
        for direction, histogram in metrics.delays.items():
            delays.add_metric([direction], *cumulative_buckets(histogram))
        yield from (
            active,
            sessions,
            frames,
            calls,
            tiers,
            waits,
            resumed,
            delays,
            fillers,
            audio,
            routed,
            transcribed,
            spoken,
        )
