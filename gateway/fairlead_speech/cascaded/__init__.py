"""Cascaded engine: speech to text, a model, text to speech, as one session of OpenAI Realtime in this process."""
