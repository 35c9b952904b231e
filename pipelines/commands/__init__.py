"""The work of the commands of the command line: a module for each group of commands."""
