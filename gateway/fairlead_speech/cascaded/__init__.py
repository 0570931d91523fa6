"""Cascaded engine: speech to text, a model and text to speech, offered as an OpenAI Realtime session in
this process.
"""
