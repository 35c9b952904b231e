"""A bank and its votes as people read them: fingerprints, principals, and what another threshold would have shown."""
