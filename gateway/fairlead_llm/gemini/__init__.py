"""Gemini generateContent: requests, answers and streams. Pure modules."""
