"""alerting."""
