"""Spans of calls for OpenTelemetry, where it is configured. docs/operate/traces.md says how."""
