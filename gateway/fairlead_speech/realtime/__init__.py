"""Speech engine for OpenAI Realtime, whose API is the general availability version."""
