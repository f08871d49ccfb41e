"""A model and an engine in conversation; runs that are read by many and kept."""
