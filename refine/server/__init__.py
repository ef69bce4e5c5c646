"""The guard: an HTTP server in front of any OpenAI-compatible model, started by `refine serve`."""
