"""Log sources: bytes to records to events. `base` says what a source is; `cloudtrail` is AWS CloudTrail."""
