"""A lifecycle as data, and the machine that it becomes: checks, walks, history."""
