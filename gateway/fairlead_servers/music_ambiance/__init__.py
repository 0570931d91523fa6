"""Server `music-ambiance`: background music by mood, played on this machine or by a client."""
