"""Server `music-ambiance`: background music by mood, played here or followed by a client."""
