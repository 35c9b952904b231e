"""The state of a detection pipeline: history, activity series, event clocks, feed counts; saved, restored, split and evicted."""
