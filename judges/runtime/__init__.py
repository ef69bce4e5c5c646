"""The context of a model call: budgets, prices, shared work, threads, the guard for tests."""
