"""Who called what, and what came of it: a line of JSON for each decision and call (docs/operate/audit-log.md)."""
