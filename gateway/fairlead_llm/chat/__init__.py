"""OpenAI Chat Completions: requests, answers and streams. Pure modules."""
