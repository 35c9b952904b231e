"""AWS CloudTrail as a log source: `source` has what `sources.base.LogSource` asks for, `features` has the features."""
