"""Parts that the programs share (wiring of adapters, service lifecycle, backend, host), and long steps of a single one."""
