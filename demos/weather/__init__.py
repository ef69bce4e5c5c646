"""Spring AI's weather demo made real: a thermometer that is often broken, and a judge that notices.

An agent calls a `weather` tool that returns -125, 15 or -255 degrees Celsius at random. The judge sees what the
tool returned, refuses what cannot be, and the agent has to measure again until the answer is accepted.
"""
