"""Wrappers around models: a cache, a rate limit, a circuit breaker, a dialect."""
