"""Server `image-gen`: pictures from an OpenAI-compatible endpoint, or drawn on this machine."""
