"""The services of the stream: ingest and scoring, with checkpoints, watermarks, back-pressure, feed gaps and metrics."""
