"""Alerts as other systems read them: OCSF, ECS, JSON lines, CSV, a message in Slack. Pure: no file, socket or clock."""
