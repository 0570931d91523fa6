"""OpenAI Realtime sessions whose slow turns a cascaded engine answers in the provider's place."""
