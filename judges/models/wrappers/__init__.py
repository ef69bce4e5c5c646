"""Models that stand in for models: a cache, a rate limit, a circuit breaker, a dialect."""
