"""Verdicts -> alerts: grouped, explained, weighed by prevalence, suppressed, and encoded as messages."""
