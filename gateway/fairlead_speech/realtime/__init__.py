"""Engine of OpenAI Realtime, by its general availability API."""
