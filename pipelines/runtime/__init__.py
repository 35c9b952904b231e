"""Parts that the programs share: wiring of adapters, service lifecycle, backend, host, training data."""
