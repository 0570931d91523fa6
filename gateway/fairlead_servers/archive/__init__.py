"""Archive of a table's sessions: transcripts, summaries, entities and facts in one indexed SQLite file."""
