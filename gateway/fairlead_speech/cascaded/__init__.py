"""Cascaded engine: an OpenAI Realtime session in this process, made of speech to text, a language model and text to
speech.
"""
