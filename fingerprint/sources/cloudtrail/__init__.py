"""AWS CloudTrail as a log source: `source` has what `sources.protocol.LogSource` asks for, `features` has the features."""
