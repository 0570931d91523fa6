"""Gemini generateContent: tools, messages, requests, answers, streams, errors, and a fake. Pure modules."""
