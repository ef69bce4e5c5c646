"""Requests to models: rendering the prompt, sending it, reading the reply strictly; shared by all judges."""
