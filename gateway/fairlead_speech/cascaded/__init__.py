"""Cascaded engine: combines speech to text, a language model and text to speech to an OpenAI Realtime session in this
process.
"""
