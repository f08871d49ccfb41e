"""One call under way, and the stages that it passes."""
