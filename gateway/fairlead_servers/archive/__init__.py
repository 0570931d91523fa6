"""Archive of game sessions: transcripts, summaries, entities and facts in one indexed SQLite file."""
