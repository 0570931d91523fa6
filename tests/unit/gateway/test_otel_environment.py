"""Which signals of OpenTelemetry are exported, and how, by the environment variables of its specification."""

from __future__ import annotations

import logging

import pytest

from fairlead_otel.environment import GRPC, HTTP, UnusableVariable, endpoint, exported_signals
from fairlead_otel.opening import open_pipelines

ALL = {"traces": HTTP, "metrics": HTTP, "logs": HTTP}


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        ({}, {}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, ALL),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, {}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, {"traces": HTTP}),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://x"}, {"logs": HTTP}),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, {"metrics": HTTP}),
        (
            {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
            {"metrics": HTTP, "logs": HTTP},
        ),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, {}),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf",
            },
            {"traces": GRPC, "metrics": GRPC, "logs": HTTP},
        ),
    ],
)
def test_signals_are_exported_where_the_environment_names_where_to_send_them(
    environ: dict[str, str], want: dict[str, str]
) -> None:
    assert exported_signals(environ) == want


def test_the_endpoint_of_a_signal_counts_before_that_of_all() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://all", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://logs/v1/logs"}
    assert endpoint(environ, "traces") == "http://all"
    assert endpoint(environ, "logs") == "http://logs/v1/logs"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json', but only http/protobuf and grpc are supported",
        ),
        ({"OTEL_LOGS_EXPORTER": "console"}, "OTEL_LOGS_EXPORTER is 'console', but only otlp and none are supported"),
    ],
)
def test_otel_variables_that_cannot_be_honoured_are_named_and_nothing_is_exported(
    environ: dict[str, str], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnusableVariable) as raised:
        exported_signals(environ)
    assert str(raised.value) == sentence
    with caplog.at_level(logging.ERROR):
        assert open_pipelines(environ, "x") is None
    assert sentence in caplog.text
