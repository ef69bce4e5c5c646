"""Asking a model: the prompt is rendered, sent, and the reply strictly read; in one place for every judge."""
