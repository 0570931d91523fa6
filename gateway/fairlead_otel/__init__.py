"""OpenTelemetry pipelines of a process: exports traces, metrics and logs over OTLP, by HTTP or gRPC.

The environment variables of OpenTelemetry configure them. The SDK is imported only if a signal is exported; importing
`environment` does not load it.
"""
