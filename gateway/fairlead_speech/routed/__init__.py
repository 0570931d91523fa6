"""OpenAI Realtime sessions in which a cascaded engine answers slow turns instead of the provider."""
