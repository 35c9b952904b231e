"""A made-up log of a print server, three fields a line: time, user, printer. A second log source, for tests of the protocol."""
