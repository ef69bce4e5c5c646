"""The doors to models: LangChain's, behind OpenAI-compatible endpoints, on this machine."""
