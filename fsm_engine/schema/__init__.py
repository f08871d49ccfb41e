"""What is checked: schemas, signatures, values bound to types."""
