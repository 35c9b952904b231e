"""The web app of the alert queue: pages, API and static reports. `static_report` escapes all text that is shown."""
