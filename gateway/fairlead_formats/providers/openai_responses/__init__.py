"""OpenAI Responses: tools, messages, requests, answers, streams, and a fake. Pure modules."""
