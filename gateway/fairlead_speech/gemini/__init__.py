"""Gemini Live (BidiGenerateContent)."""
