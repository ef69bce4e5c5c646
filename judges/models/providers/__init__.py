"""Clients of models: LangChain's, those behind OpenAI-compatible endpoints, and those on this machine."""
