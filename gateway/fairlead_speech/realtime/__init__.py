"""Speech sessions in the format of the OpenAI Realtime API (general availability)."""
