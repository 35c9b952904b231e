"""The analyst's pages over the desk. Everything shown goes through one place that makes hostile text visible
(`page`)."""
