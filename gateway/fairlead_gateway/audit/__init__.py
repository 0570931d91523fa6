"""Audit log: one line of JSON per decision and call (docs/operate/audit-log.md)."""
