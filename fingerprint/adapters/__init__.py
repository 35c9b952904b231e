"""The doors: what the inside needs of the outside. No door imports another."""
