"""An organisation that does not exist, and what CloudTrail would have recorded of it.

The parts, each in its file:

    pools           names and ids that fill the places of a record
    forms           a record's form: what is left when who, when and where are taken out
    catalogue       every AWS operation by name; the library of forms
    programs        what people and machines call AWS with, and from which networks
    identities      the `userIdentity` blocks
    practice        what jobs and machines do all day
    calendar        time zones, working hours, holidays
    calls           calls as columns: the exchange between those who act and what writes records
    tail            the long tail: what nobody, or not this one, ever called
    people          one person's days
    machines        one machine role's days
    services        what AWS services do by themselves
    organisation    accounts, and what all principals share
    staff           who there is: people, machine roles, services
    surprises       harmless things that look odd
    intruders       whose session, which tool, which network, when: thieves and mimics
    scripts         what an intruder calls: real attack records, and the victim's own calls between
    attacks         who is met, how often, how many calls
    days            all calls of a day
    records         calls -> JSON lines
    delivery        lateness, disorder, repeats
"""
