"""Banks on disk: writing, verifying and opening them, their versions, signatures, quality and drift."""
