"""What happens on entering and leaving a state: one concern a file."""
