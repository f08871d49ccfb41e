"""Any value as strict JSON, bounded; what may be shown of it."""
