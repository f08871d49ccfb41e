"""What a tool author touches: the spec, its settings, the registry, the context."""
