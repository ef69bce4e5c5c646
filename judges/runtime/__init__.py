"""What surrounds a call: budgets, prices, shared work, threads, the guard of tests."""
