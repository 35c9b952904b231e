"""The options and arguments of all commands, as annotated types.

Example:
    >>> def alerts_note(alert_id: AlertId, text: NoteText, database: DatabaseUrl = None) -> None: ...
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fingerprint.core.account import Role
from fingerprint.core.alert import Decision
from fingerprint.core.case import CaseStatus

FEWEST_ALERTS_PER_DAY = 0.01  # none a day would be a threshold above every vote: a queue that stays empty

# --- shared ---

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/prefix`); .json, .jsonl, with or without .gz.",
        show_default=False,
    ),
]
BankFolder = Annotated[
    Path,
    typer.Option(
        "--bank", envvar="FINGERPRINT_BANK_FOLDER", help="The folder of the bank (all fingerprints)."
    ),
]
OptionalBank = Annotated[
    Path | None,
    typer.Option(
        "--bank",
        envvar="FINGERPRINT_BANK_FOLDER",
        help="The folder of the bank (all fingerprints).",
        show_default="bank",
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar="FINGERPRINT_SETTINGS_FILE",
        help="A TOML file; `FINGERPRINT_<SECTION>__<KEY>` in the environment overrides it.",
        show_default=False,
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="The database that holds alerts: an SQLAlchemy URL.",
        show_default="sqlite:///fingerprint.sqlite",
    ),
]
WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="Where the work is done: `local`, `dask` (processes of this machine), `dask-cuda`, or a scheduler's address. "
        "A run that was interrupted resumes when it is repeated.",
        show_default="local",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _match_option(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


# --- accounts ---

AccountName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the account.", show_default=False)
]
NewAccountRole = Annotated[Role, typer.Option(help="What the account may do.")]
RoleArgument = Annotated[Role, typer.Argument(help="The new role.", show_default=False)]

# --- alerts ---

AlertId = Annotated[str, typer.Argument(metavar="ALERT_ID", help="The id of the alert, or its beginning.")]
By = Annotated[str | None, typer.Option("--by", help="The author.", show_default="the name of the login")]
StatusFilter = Annotated[
    CaseStatus, typer.Option(help="Open alerts (new or in progress), closed ones, or all.")
]
LeastSeverity = Annotated[
    Literal["low", "medium", "high", "critical"] | None,
    typer.Option(help="The least severity: `high` lists critical alerts too.", show_default=False),
]
PrincipalFilter = Annotated[
    str, typer.Option(help="Alerts of this principal, by its full name.", show_default=False)
]
QueryFilter = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="QUERY",
        help="A query such as 'action:StopLogging -principal:ci-*'.",
        show_default=False,
    ),
]
SinceFilter = Annotated[
    str | None,
    typer.Option(
        metavar="DATE|AGE",
        help="Alerts with an event at this time or later: 2026-01-31 (UTC), 24h, 7d.",
        show_default=False,
    ),
]
AlertLimit = Annotated[
    int | None,
    typer.Option(min=1, max=1_000_000, help="The most urgent alerts, so many.", show_default="all"),
]
OutputFormat = Annotated[
    Literal["table", "wide", "json", "csv", "id"], typer.Option("--output", "-o", help="The format.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
HtmlPage = Annotated[Path | None, typer.Option(help="Write the alert as an HTML page.", show_default=False)]
DispositionArgument = Annotated[Decision, typer.Argument(help="The disposition.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="REASON", help="The reason, for later readers.")]
DuplicateOf = Annotated[
    str | None,
    typer.Option("--of", metavar="ALERT_ID", help="The alert that it duplicates.", show_default=False),
]
Assignee = Annotated[str, typer.Argument(metavar="[ACCOUNT]", help="The account.", show_default="unassigned")]
NoteText = Annotated[str, typer.Argument(metavar="TEXT", help="The note, in quotes.", show_default=False)]
ExportFormat = Annotated[
    Literal["csv", "jsonl", "ecs", "ocsf"],
    typer.Option("--format", help="One row, or one line of JSON, for each alert."),
]
ExportFile = Annotated[
    Path | None,
    typer.Option(help="The file; it appears when it is complete.", show_default="standard output"),
]

# --- bank ---

Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version that `fingerprint bank list` shows.")
]
OptionalVersion = Annotated[
    str | None,
    typer.Argument(
        metavar="[VERSION]", help="A version that `fingerprint bank list` shows.", show_default=False
    ),
]
HistoryWhy = Annotated[
    str, typer.Option("--why", metavar="REASON", help="The reason, for the history.", show_default=False)
]
OlderVersion = Annotated[
    str, typer.Argument(metavar="OLDER", help="A version, such as the one that is served.")
]
NewerVersion = Annotated[
    str, typer.Argument(metavar="NEWER", help="A later version, such as the one that was trained last.")
]
TopCount = Annotated[int, typer.Option(min=0, help="The number of fingerprints shown that changed most.")]
PublishForce = Annotated[
    str | None,
    typer.Option(
        metavar="REASON",
        help="Serve it against the decision of the gate; the reason is recorded.",
        show_default=False,
    ),
]
KeyFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The file of the private key; FILE.pub gets the public one."),
]

# --- config ---

TemplateFile = Annotated[Path, typer.Argument(help="The file to write; an existing file is kept.")]
OnlyChanged = Annotated[
    bool, typer.Option("--changed", help="Only settings that the file or the environment sets.")
]

# --- database ---

PurgedPrincipal = Annotated[str, typer.Argument(help="The full name: `111122223333:user/maria`.")]
Confirmed = Annotated[bool, typer.Option("--yes", help="Confirm: it cannot be undone.")]

# --- deliveries ---

ReceiverName = Annotated[
    str,
    typer.Option("--receiver", help="Only this receiver, by its name in the settings.", show_default=False),
]
OnlyFailed = Annotated[bool, typer.Option("--failed", help="Only failed deliveries.")]
DeliveryLimit = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="The number of deliveries, newest first.")
]
DeliveryKey = Annotated[
    str, typer.Argument(metavar="[KEY]", help="As `deliveries list --json` names it.", show_default="all")
]

# --- feed gaps ---

OnlyOpen = Annotated[bool, typer.Option("--open", help="Only gaps that have not ended.")]

# --- programs ---

SimulateOut = Annotated[
    Path, typer.Option(help="The folder to fill: YYYY-MM-DD.jsonl.gz a day, and labels.jsonl.")
]
SimulatePrincipals = Annotated[int, typer.Option(min=1, help="People, machines and services.")]
SimulateDays = Annotated[int, typer.Option(min=1, help="Days of traffic.")]
SimulateSeed = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]
SimulateAttacks = Annotated[
    int, typer.Option(min=0, help="Attack sessions that are inserted into the last quarter.")
]
WithAnomalies = Annotated[
    bool, typer.Option(help="Benign anomalies in the last quarter too (14 days or more).")
]
SimulateUntil = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="The last day is the one before, and nothing happens after its midnight (UTC): 2026-01-31, or `today`.",
        show_default="from 2026-01-05 on",
    ),
]
TrainSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...",
        help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/AWSLogs/`); .json, .jsonl, .gz or not.",
        show_default=False,
    ),
]
TrainTopic = Annotated[
    str | None,
    typer.Option(
        help="Read this Kafka topic too, from its beginning to where it ends now, without disturbing its other readers: "
        "`--topic fingerprint.events`.",
        show_default=False,
    ),
]
ScoreSince = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Score events of this time and later, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC). Objects of a trail "
        "whose day lies before are not fetched.",
        show_default=False,
    ),
]
ScoreUntil = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Score events before this time.", show_default=False),
]
TrainSince = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Learn from events of this time and later, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC).",
        show_default=False,
    ),
]
TrainUntil = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Learn from events before this time.", show_default=False),
]
TrainDays = Annotated[
    float | None,
    typer.Option(help="Instead of --since: the last days before the newest event.", show_default=False),
]
ExclusionDatabase = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The database that says which events to leave out: an SQLAlchemy URL, or `none`.",
        show_default="the database of the settings, if it exists",
    ),
]
AllowImmature = Annotated[
    bool,
    typer.Option("--allow-immature", help="Serve a first bank although no entity of it is ready."),
]
ScoredEventsFile = Annotated[
    Path | None,
    typer.Option(
        help="Write every event with its scores, votes and verdict: FILE.parquet or FILE.jsonl.",
        show_default=False,
    ),
]
StateFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="A folder that carries the scorer's state from one run to the next.",
        show_default=False,
    ),
]
SimulateWorld = Annotated[
    int | None,
    typer.Option(
        metavar="SEED",
        help="Draw another world by this seed, as `evaluate --worlds` does (docs/explanation/simulation.md); --days stays.",
        show_default=False,
    ),
]
EvaluateSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...",
        help="A folder of records with labels.jsonl; without one, simulated organisations.",
        show_default=False,
    ),
]
EvaluatePrincipals = Annotated[int, typer.Option(min=2, help="Size of each simulated organisation.")]
EvaluateDays = Annotated[int, typer.Option(min=8, help="Days simulated; the last quarter is judged.")]
EvaluateSeed = Annotated[
    list[int] | None, typer.Option(help="One organisation a seed; may be repeated.", show_default="0")
]
FinalSeeds = Annotated[
    bool,
    typer.Option(
        "--final",
        help="The three seeds, or the worlds, that are kept for the final table: never tune by them, and look at them once.",
    ),
]
Worlds = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Instead of seeds: so many drawn worlds, their mean and the worst (docs/explanation/evaluation.md). The last "
        "line of the output says how long a world took and what it held.",
        show_default=False,
    ),
]
WorldWorkers = Annotated[
    int | None,
    typer.Option(
        "--world-workers",
        min=1,
        help="Worlds that are evaluated at a time, each in a process of its own.",
        show_default="as many as there are cores and free memory for",
    ),
]
EvaluateAttacks = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Attack sessions in each organisation.",
        show_default="one for ten principals, 12 to 96",
    ),
]
EvaluateKeep = Annotated[
    Path | None,
    typer.Option(help="A folder that keeps simulated organisations for later runs.", show_default=False),
]
ThirdDetector = Annotated[
    bool | None,
    typer.Option(
        help="Evaluate the optional isolation forest too: slow.", show_default="up to 600 principals"
    ),
]
WithPeers = Annotated[
    bool | None,
    typer.Option(help="Evaluate simpler methods too.", show_default="up to 600 principals"),
]
WithSlowPeers = Annotated[
    bool, typer.Option("--slow-peers", help="Also those that take seconds a principal (dfencoder).")
]
WithTerms = Annotated[
    bool | None,
    typer.Option(
        "--terms/--no-terms",
        help="Measure each detector once more with each term of its score left out.",
        show_default="up to 600 principals",
    ),
]
RealDataSets = Annotated[
    bool,
    typer.Option(
        "--real",
        help="Evaluate the real data sets of the project too: read, moved sessions, labelled attacks.",
    ),
]
RealDataFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--real-data",
        help="With --real: a folder of more real sets, each a folder NAME with NAME.jsonl.gz.",
        exists=True,
        file_okay=False,
        show_default=False,
    ),
]
NewcomersOnly = Annotated[
    bool,
    typer.Option(
        "--newcomers",
        help="Instead: attacks by principals that are hours old, and benign first days (docs/explanation/detection.md).",
    ),
]
RetrainWeeks = Annotated[
    int | None,
    typer.Option(
        "--retrain",
        min=1,
        max=12,
        metavar="WEEKS",
        help="Instead: a bank that serves so many weeks and is trained again before each, with what its alert store holds "
        "(docs/explanation/evaluation.md); with --worlds in as many drawn worlds.",
        show_default=False,
    ),
]
DemoOut = Annotated[Path, typer.Option(help="The folder for everything the demo makes.")]
DemoUntil = Annotated[
    str,
    typer.Option(
        metavar="DATE",
        help="The last day is the one before: 2026-01-25, or `today`. The same date gives the same alerts.",
    ),
]
DemoServe = Annotated[
    bool, typer.Option("--serve", help="Serve the queue afterwards, until it is interrupted.")
]
DemoBrowser = Annotated[
    bool,
    typer.Option("--open-browser", help="With --serve: open the queue in a browser, if there is a display."),
]
ProveBackend = Annotated[
    bool,
    typer.Option("--prove", help="Read some records by it and by the CPU: exit status 3 if they differ."),
]

# --- secrets ---

SecretsFolder = Annotated[
    Path, typer.Argument(help="The folder of the secrets: a volume that only services mount.")
]
SecretNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="The names of the secrets.",
        show_default="database-password and triton-control",
    ),
]
RotateSecret = Annotated[
    list[str] | None,
    typer.Option(
        "--rotate",
        metavar="NAME",
        help="Give this secret a new value; the old one stays beside it as NAME.old. May be repeated.",
        show_default=False,
    ),
]

# --- services ---

IngestSqs = Annotated[
    str | None,
    typer.Option(
        "--sqs",
        metavar="QUEUE-URL",
        help="Read S3 objects instead, as notifications in this queue name them (S3, SNS, EventBridge or CloudTrail); "
        "credentials, region and endpoint are boto3's: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL ...",
        show_default=False,
    ),
]
IngestOnce = Annotated[
    bool,
    typer.Option(
        "--once", help="Read to the end that the topic had at the start, or until the queue is empty."
    ),
]
StreamOnce = Annotated[bool, typer.Option("--once", help="Read to the end that the topic had at the start.")]
StreamWait = Annotated[bool, typer.Option("--wait", help="Wait for the first bank if there is none.")]
RetrainOnce = Annotated[
    bool,
    typer.Option("--once", help="Check once, train if it is due, then end: for your own schedule."),
]
DeliverOnce = Annotated[bool, typer.Option("--once", help="Send what is due now, then end.")]
Host = Annotated[str | None, typer.Option(help="Where to listen.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one.", show_default="8080")]
ReplayTopic = Annotated[
    str | None,
    typer.Option(help="The topic to send to.", show_default="the raw topic of the settings"),
]
ReplayRate = Annotated[float | None, typer.Option(help="Records a second.", show_default="no limit")]
ReplaySpeed = Annotated[
    float | None, typer.Option(help="Times real time, by eventTime.", show_default="no limit")
]
KeyedMessages = Annotated[
    bool, typer.Option("--keyed", help="Key each record by its principal, as ingest does.")
]
SimulateLiveDays = Annotated[int, typer.Option(min=4, help="Days of traffic; the last is yesterday (UTC).")]
SimulateLiveAttacks = Annotated[int, typer.Option(min=0, help="Attack sessions in the last quarter.")]
SimulateLiveSeed = Annotated[int, typer.Option(help="The same seed gives the same organisation.")]
SimulateLiveSpeed = Annotated[float, typer.Option(help="Times real time, for the last quarter.")]
SimulateLiveFolder = Annotated[
    Path,
    typer.Option(help="The folder for records, labels.jsonl and its progress, from which it resumes."),
]
SimulateLiveKeep = Annotated[bool, typer.Option("--keep", help="Keep the records after they are sent.")]

# --- suppressions ---

MatchPrincipal = Annotated[
    str, _match_option("--principal", "Alerts of this principal, by its whole name: `111122223333:role/etl`.")
]
MatchHuman = Annotated[str, _match_option("--human", "... of this human behind the session.")]
MatchAccount = Annotated[str, _match_option("--account", "... whose calls all were in this account.")]
MatchService = Annotated[str, _match_option("--service", "... whose events all are of this service: `glue`.")]
MatchAction = Annotated[
    str, _match_option("--action", "... all call this: `glue:StartJobRun`, or `StartJobRun`.")
]
MatchNetwork = Annotated[
    str, _match_option("--network", "... all come from here: `10.3.0.0/16`, or an address.")
]
MatchUserAgent = Annotated[
    str, _match_option("--user-agent", "... all have a user agent that begins like this.")
]
MatchErrorCode = Annotated[str, _match_option("--error-code", "... all failed like this: `AccessDenied`.")]
WithEnded = Annotated[bool, typer.Option("--ended", help="Ended ones too.")]
SuppressionEnd = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="When it ends, UTC: 2026-06-01.", show_default=False),
]
SuppressionDays = Annotated[
    float | None, typer.Option(help="Instead: in so many days, 366 at most.", show_default="30")
]
SuppressionForce = Annotated[
    str | None,
    typer.Option(
        metavar="REASON",
        help="Hide confirmed attacks and critical alerts too; the reason is recorded.",
        show_default=False,
    ),
]
SuppressionId = Annotated[str, typer.Argument(metavar="SUPPRESSION", help="The id that `list` shows.")]

# --- thresholds ---

EstimateDays = Annotated[float, typer.Option(min=1, help="Days of history that are used.")]
OverrideWhy = Annotated[str, typer.Option(metavar="REASON", help="The reason, for the history.")]
Threshold = Annotated[
    float | None,
    typer.Option(help="The threshold of alerts, a z-score.", show_default="the settings"),
]
AlertsPerDay = Annotated[
    float | None,
    typer.Option(
        min=FEWEST_ALERTS_PER_DAY, help="Take the threshold that shows at most so many, by the stored votes."
    ),
]
HideAll = Annotated[
    bool, typer.Option("--force", help="Also a threshold or quorum that would have shown no alert at all.")
]
Quorum = Annotated[int | None, typer.Option(help="Votes that make a verdict.", show_default="the settings")]

# --- topics ---

DeadLetterTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help="The topic whose dead letters are meant: the events topic has some too.",
        show_default="the raw topic of the settings",
    ),
]
ReplayQueue = Annotated[
    str | None,
    typer.Option(
        "--sqs",
        metavar="QUEUE-URL",
        help="The queue that notifications came from: they go back to it.",
        show_default=False,
    ),
]
PartitionCount = Annotated[
    int,
    typer.Option(
        min=1,
        help="Partitions of the raw, events, alerts and votes topics: 1, 2, 4, ... 256; as many scorers can share the work.",
    ),
]
ReplicaCount = Annotated[
    int | None,
    typer.Option(min=1, help="Replication factor.", show_default="the default of the broker"),
]
EventsRetention = Annotated[
    float | None,
    typer.Option(
        help="Days for which the events topic keeps records: trainings read it.",
        show_default="kafka.events_retention_days: 35",
    ),
]
GrowTopics = Annotated[
    bool,
    typer.Option(
        "--grow",
        help="Add partitions to an existing events topic too. Principals move to other partitions: first stop ingest, "
        "let the stream read to the end, and stop it.",
    ),
]
BrokerWait = Annotated[float, typer.Option(min=0, help="Seconds to wait for a broker that is starting.")]
