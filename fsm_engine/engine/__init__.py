"""Drives invocations: one activity a state, and what is kept of all tools."""
