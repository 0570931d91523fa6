"""Server `session-manager`: transcripts and summaries of sessions."""
