"""Tests of fingerprint.detection.detectors."""
