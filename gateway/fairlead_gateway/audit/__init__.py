"""Who called what, and what came of it: one line of JSON for each decision and call. README.md says what is in it."""
