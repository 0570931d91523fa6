"""Stored responses of OpenAI's Responses API, which later requests continue and clients retrieve or delete."""
