"""Bridge for OpenAI Realtime, in the form of its general availability."""
