"""Engine of Gemini Live, by its API BidiGenerateContent."""
