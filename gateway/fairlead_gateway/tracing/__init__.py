"""OpenTelemetry spans of calls, if traces are configured; docs/operate/traces.md explains the configuration."""
