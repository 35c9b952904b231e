"""file_broker."""
