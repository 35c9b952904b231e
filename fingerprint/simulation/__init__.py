"""Simulation of an invented organisation, and of the records that CloudTrail would write about it.

world             organisation, staff, anomalies and attacks; all calls of a day. Start here
world_parameters  parameters by which worlds differ, each with its range

organisation      accounts, and everything that all principals share
staff             the principals: people, machine roles, services
people            one person's days
machines          one machine role's days
aws_services      calls that AWS services make by themselves
job_tasks         the usual tasks of jobs and machines
long_tail         calls that a principal, or the whole organisation, never made before
calendar          time zones, working hours, holidays
benign_anomalies  harmless events that look odd

attacks           victims, numbers and sizes of attacks
attackers         sessions, tools, networks and times of attackers: thieves and mimics
attack_scripts    an attacker's calls: real attack records, with calls of the victim's own between them

api_calls         calls as columns, passed from principals to the writer of records
api_catalogue     the library of templates of AWS operations
record_templates  records without caller, time and place
identifiers       names and ids that fill the placeholders of a record
user_identity     the `userIdentity` blocks
user_agents       programs and networks of people and machines
record_writer     calls -> JSON lines
log_delivery      lateness, disorder, repeats
record_files      a file a day, and labels
live_progress     progress of a live simulation
"""
