"""An organisation that does not exist, and what CloudTrail would have recorded of it.

world             organisation, staff, anomalies and attacks; all calls of a day. Start here
world_parameters  what worlds differ in: knobs, each with its range

organisation      accounts, and what all principals share
staff             who there is: people, machine roles, services
people            one person's days
machines          one machine role's days
aws_services      what AWS services do by themselves
job_tasks         what jobs and machines do all day
long_tail         calls that a principal, or the whole organisation, never made before
calendar          time zones, working hours, holidays
benign_anomalies  harmless things that look odd

attacks           which victims, how often, how many calls
attackers         whose session, which tool, which network, when: thieves and mimics
attack_scripts    what an attacker calls: real attack records, and the victim's own calls between

api_calls         calls as columns: the exchange between those who act and what writes records
api_catalogue     the library of templates of AWS operations
record_templates  a record without who, when and where
identifiers       names and ids that fill the placeholders of a record
user_identity     the `userIdentity` blocks
user_agents       what people and machines call AWS with, and from which networks
record_writer     calls -> JSON lines
log_delivery      lateness, disorder, repeats
record_files      a file a day, and labels
live_progress     how far a live simulation is
"""
