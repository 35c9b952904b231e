"""What the commands of the command line do: a module for each group of commands."""
