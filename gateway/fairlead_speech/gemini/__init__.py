"""Speech engine for Gemini Live, whose API is BidiGenerateContent."""
