"""Speech sessions in the format of Gemini's Live API (BidiGenerateContent)."""
