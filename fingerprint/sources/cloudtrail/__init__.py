"""cloudtrail."""
