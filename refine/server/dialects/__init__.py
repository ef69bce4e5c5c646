"""The protocols that the guard speaks, one pure module each."""
