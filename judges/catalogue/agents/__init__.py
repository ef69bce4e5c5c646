"""Judges of agents: their tool calls, their way to the goal, and whether they got there."""
