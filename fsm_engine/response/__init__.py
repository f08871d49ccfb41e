"""What a tool call gives back."""
