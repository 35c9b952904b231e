"""The references of settings, commands, metrics and API routes, and the settings of the chart's schema, generated from the code.

None of this ships.

pages     `make docs`: writes the pages, or names those that are out of date. Start here
chart_schema  names of the settings in the schema of the chart's values
settings  a table for each section of the settings
commands  help, arguments and options of each command
metrics   metrics by program
routes    routes of the API, with the role that each needs
tables    a text as the cell of a Markdown table

The pages hold nothing that is not in the code: to change a sentence, change the `description` of the field, the docstring of the
section, the `help` of the option, the description of the metric or the docstring of the route.
"""
