"""Speech sessions."""
