"""Pages generated from the code: references of settings, commands, metrics and API routes, and settings in the chart's schema.

This package is not part of a release.

pages         `make docs`: write the pages, or name those that are out of date. Start here
chart_schema  the settings in the schema of the chart's values
settings      a table for each section of the settings
commands      help, arguments and options of each command
metrics       metrics by program
routes        routes of the API, with the role that each needs
tables        a text as the cell of a Markdown table

All sentences of the pages are in the code. To change one, change the `description` of the field, the docstring of the section,
the `help` of the option, the description of the metric or the docstring of the route.
"""
