"""Providers of models: configuration, requests, circuit breakers and records of usage."""
