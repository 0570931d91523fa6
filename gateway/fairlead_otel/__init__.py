"""OpenTelemetry pipelines of a process: exports traces, metrics and logs over OTLP, by HTTP or gRPC.

The environment variables of OpenTelemetry configure the pipelines. The SDK is imported only if a signal is exported;
importing `environment` does not load it.
"""
