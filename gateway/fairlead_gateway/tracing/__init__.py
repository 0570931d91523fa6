"""Spans of calls for OpenTelemetry, where it is configured. README.md says how."""
