"""Judging by a provider's batch endpoint: slower than direct calls, at half the price."""
