"""OpenTelemetry's pipelines of a process: traces and logs over OTLP, by HTTP or gRPC, as its environment says.

Nothing of OpenTelemetry's SDK is loaded by `environment`; `pipelines` and what it needs are imported where a signal is
exported.
"""
