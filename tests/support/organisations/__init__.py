"""Organisations of other makers: CloudTrail of a hospital group and of a service provider, with attacks and their labels.

    python -m tests.support.organisations.hospital SEED FOLDER [--days 18] [--judged 6]
    python -m tests.support.organisations.service_provider SEED FOLDER [--days 18] [--judged 6]
    fingerprint evaluate FOLDER --no-third --no-terms

A simulator and a detector that grow up together agree on what is usual. These two were written without a look at
`fingerprint.simulation`, from what is known of CloudTrail and of published incidents, and are kept so that figures can be
repeated (docs/explanation/evaluation.md). The same seed gives the same records; each has 54 sessions of attacks.

**Those who tune the product do not tune these.** A change to what they generate makes figures of before incomparable and the
maker a judge in their own case. If a record is wrong, mend it and say so beside the next figures; for other habits, write
another organisation.

What came of them so far:

- Copies and large jobs come again the next day: an amount that came the day before, and could have alerted then, is no news.
- When an account joins, everyone in it is new: of a customer who joined, that its principals were new opened alerts.
- AWS records a call into another account twice, and the copy without the caller's key hid a chain of credentials.
- Thieves who do little, and only what their victim usually does, stay below the threshold: mimics are what is missed most.

Known weaknesses: an account's resources are a few names each; hardly any response is filled in; a call's requests do not
depend on the calls before it; machines have no habits of the week but their rates.
"""
