"""The command line: names the programs and their settings; no logic."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fingerprint import settings as settings_
from fingerprint.domain import Decision, FingerprintError
from fingerprint.people import Role

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Finds stolen and misused cloud credentials by knowing everyone's habits.\n\n"
    "A first walk: `fingerprint demo`. With your own CloudTrail: `fingerprint train logs/ --bank bank`, then "
    "`fingerprint score today.json.gz --bank bank`, then `fingerprint alerts list`.",
)
alerts = typer.Typer(help="The analysts' queue: what was forwarded, and why.")
app.add_typer(alerts, name="alerts")
dlq = typer.Typer(help="Dead letters: messages that could not be read.")
app.add_typer(dlq, name="dlq")
snapshots = typer.Typer(help="The remembered state of the stream, by partition.")
app.add_typer(snapshots, name="snapshots")
notices = typer.Typer(help="Accounts, regions and sources from which nothing comes any more.")
app.add_typer(notices, name="notices")
banks = typer.Typer(help="The versions of a bank: which are kept, which is served, and why.")
app.add_typer(banks, name="bank")
triton = typer.Typer(help="The bank behind a Triton server: what it serves, and what it is to serve.")
app.add_typer(triton, name="triton")
deliveries = typer.Typer(help="What was told elsewhere, and what could not be.")
app.add_typer(deliveries, name="deliveries")

users = typer.Typer(help="Who may log in at the desk: for a first admin, and for one who is locked out.")
app.add_typer(users, name="users")
thresholds = typer.Typer(help="What events are held to: seen, foreseen as alerts a day, chosen.")
app.add_typer(thresholds, name="threshold")
suppressions = typer.Typer(help="Alerts that need not be read: whose, why, until when.")
app.add_typer(suppressions, name="suppressions")
tidy = typer.Typer(help="What the desk keeps, and what it no longer does.")
app.add_typer(tidy, name="desk")

EXTRAS = {  # what is not installed with the program itself
    "argon2": "web",
    "authlib": "web",
    "fastapi": "web",
    "httpx2": "web",
    "joserfc": "web",
    "starlette": "web",
    "uvicorn": "web",
    "confluent_kafka": "confluent",
    "distributed": "scale",
    "kafka": "kafka",
    "torch": "train",
    "tritonclient": "triton",
}

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/prefix`); .json, .jsonl, with or without .gz.",
        show_default=False,
    ),
]
BankFolder = Annotated[Path, typer.Option("--bank", help="The folder of the bank (all fingerprints).")]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="A TOML file; `FINGERPRINT_<SECTION>__<KEY>` in the environment wins over it.",
        show_default=False,
    ),
]
DeskUrl = Annotated[
    str | None,
    typer.Option(
        "--desk", help="Where alerts rest: an SQLAlchemy URL.", show_default="sqlite:///fingerprint.sqlite"
    ),
]
WorkersWhere = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="Who does the work: `local`, `dask` (processes of this machine), `dask-cuda`, or a scheduler's address. "
        "Killed and given again, it goes on.",
        show_default="local",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print figures as JSON, for programs.")]


@app.command()
def simulate(
    out: Annotated[
        Path, typer.Option(help="The folder to fill: YYYY-MM-DD.jsonl.gz a day, and labels.jsonl.")
    ],
    principals: Annotated[int, typer.Option(min=1, help="People, machines and services.")] = 50,
    days: Annotated[int, typer.Option(min=1, help="Days of traffic.")] = 28,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    attacks: Annotated[int, typer.Option(min=0, help="Attack sessions spliced into the last quarter.")] = 4,
    surprises: Annotated[
        bool, typer.Option(help="Harmless surprises in the last quarter too (14 days or more).")
    ] = True,
    json: Json = False,
) -> None:
    """Write CloudTrail records of an organisation that does not exist, with real attacks spliced in and labelled."""
    from fingerprint.simulation.surprises import SURPRISES
    from pipelines import show
    from pipelines.simulate import simulate

    with show.progress(not json) as progress:
        written = simulate(
            principals,
            days,
            seed,
            out,
            attacks,
            surprises=tuple(SURPRISES) if surprises else (),
            progress=lambda done, records: progress("simulating days", done, days),
        )
    figures = show.of_simulated(written, days)
    _print(figures, json, lambda: show.simulated(figures))


@app.command()
def train(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/AWSLogs/`); .json, .jsonl, .gz or not.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            help="Read this topic of Kafka too, from its beginning to where it ends now, beside whoever else reads it: "
            "`--topic fingerprint.events`.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Learn what happened from then on, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC).",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="... and before then: that moment is left out.", show_default=False
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="Instead of --since: the last days before the newest event.", show_default=False),
    ] = None,
    desk: Annotated[
        str | None,
        typer.Option(
            help="The desk that is asked which events to leave out: an SQLAlchemy URL, or `none` for nobody.",
            show_default="the desk of the settings, where there is one",
        ),
    ] = None,
    bank: BankFolder = Path("bank"),
    workers: WorkersWhere = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Learn everybody's habits from a history and publish them as a bank.

    A few weeks are best; two days are the least: `fingerprint train s3://trail/AWSLogs/ --days 30`. Objects of a trail whose
    day lies outside are not fetched.

    What was flagged is learned slowly (docs/training.md). Left out is what lies in alerts that are open or were called
    malicious; what was called benign or a false positive comes back (`fingerprint alerts triage`), and so do single votes after
    `training.votes_return_days`. What was said of alerts also moves the thresholds of their entities, a little.

    It says which entities are ready, which fall back to their principal, peer group or the organisation, and when the others
    will be ready. Where a bank is served already, the gate compares the two: a new one that misses what the old one finds,
    or is a surprise otherwise, is kept and not served, and the exit status is 3.
    """
    from fingerprint import spans
    from pipelines import show
    from pipelines.train import train

    span, loaded = spans.of(since, until, days), settings_.load(settings, options=_workers(workers))
    with show.progress(not json) as progress:
        figures = train(sources or [], bank, loaded, progress, topic=topic, span=span, desk=desk)
    _print(figures, json, lambda: show.trained(figures))
    _refused(figures["refusal"])


@app.command()
def score(
    sources: Sources,
    bank: BankFolder = Path("bank"),
    desk: DeskUrl = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Every event with its z's, votes and verdict: FILE.parquet or FILE.jsonl.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="A folder that carries series and counts from one run to the next.", show_default=False
        ),
    ] = None,
    workers: WorkersWhere = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Ask both questions of every event and put what the quorum flags on the desk.

    Each run starts where the bank's training ended, or where the last run with the same --ledger did. Scoring the same
    input twice changes nothing on the desk.
    """
    from pipelines import show
    from pipelines.backfill import backfill
    from pipelines.score import score

    loaded = settings_.load(settings, options=_workers(workers))
    with show.progress(not json) as progress:
        walk = score if loaded.workers.where == "local" else backfill
        figures = walk(sources, bank, loaded, progress, desk_url=desk, out=out, ledger_folder=ledger)
    _print(figures, json, lambda: show.scored(figures))


@app.command()
def evaluate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="A folder of records with labels.jsonl; none: simulated organisations.",
            show_default=False,
        ),
    ] = None,
    principals: Annotated[int, typer.Option(min=2, help="Size of each simulated organisation.")] = 50,
    days: Annotated[int, typer.Option(min=8, help="Days simulated; the last quarter is judged.")] = 28,
    seed: Annotated[
        list[int] | None, typer.Option(help="One organisation a seed; may be given again.", show_default="0")
    ] = None,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="The three seeds that are kept for the final table: never to be tuned by, nor looked at twice.",
        ),
    ] = False,
    attacks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Attack sessions in each organisation.",
            show_default="one for ten principals, 12 to 96",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="A folder where simulated organisations stay, to be used again.", show_default=False
        ),
    ] = None,
    third: Annotated[
        bool | None,
        typer.Option(help="Also ask the optional forest: slow.", show_default="up to 500 principals"),
    ] = None,
    peers: Annotated[
        bool | None, typer.Option(help="Also ask simpler methods.", show_default="up to 500 principals")
    ] = None,
    slow_peers: Annotated[
        bool, typer.Option("--slow-peers", help="Also those that take seconds a principal (dfencoder).")
    ] = False,
    real: Annotated[
        bool, typer.Option("--real", help="Also walk the real sets that travel with the project.")
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Measure what is found and what is left in peace, beside simpler detectors on the same rows."""
    from pipelines import show
    from pipelines.evaluate import Asked, evaluate
    from pipelines.evaluation_real import real as real_sets
    from pipelines.evaluation_table import print_figures
    from pipelines.organisations import seeds_for

    loaded = settings_.load(settings)
    with show.progress(not json) as progress:
        figures = evaluate(
            sources or [],
            loaded,
            progress,
            principals=principals,
            days=days,
            seeds=seeds_for(seed, final),
            attacks=attacks,
            keep=keep,
            asked=Asked(peers, slow_peers, third),
        )
        figures |= {"real": real_sets(loaded, progress)} if real else {}
    _print(figures, json, lambda: print_figures(figures))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where everything the demo makes is put.")] = Path("build/demo"),
    settings: SettingsFile = None,
) -> None:
    """Walk the whole road once: simulate an organisation, learn it, score its last week, show the alerts."""
    from pipelines.demo import demo

    demo(out, settings_.load(settings))


@alerts.command("list")
def alerts_list(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """The queue, most urgent first."""
    from pipelines.alerts import list_alerts

    list_alerts(desk or settings_.load(settings).desk.url, json)


@alerts.command("show")
def alerts_show(
    alert_id: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")],
    desk: DeskUrl = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the alert as an HTML page.", show_default=False)
    ] = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """One alert explained: what drove it, how active the principal was, what to do next.

    Where the folder of the bank still has the version that measured it: also whose threshold was moved by what analysts said.
    """
    from pipelines.alerts import show_alert

    options = settings_.load(settings)
    show_alert(desk or options.desk.url, alert_id, json, page, bank, options)


@alerts.command("triage")
def alerts_triage(
    alert_id: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")],
    decision: Annotated[Decision, typer.Argument(help="What it was.", show_default=False)],
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever reads it later.")] = "",
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="ALERT_ID", help="What it is a duplicate of.", show_default=False),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Who says so.", show_default="the name of the login")
    ] = None,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Say what an alert was: `fingerprint alerts triage 397edb7b benign --why "a new laptop"`.

    The next training learns what was benign or a false positive, and never what was a true positive. What is said last
    counts; an alert that grows afterwards is open again.
    """
    from pipelines.triage import print_triaged, triage_alert

    figures = triage_alert(desk or settings_.load(settings).desk.url, alert_id, decision, why, of, by)
    _print(figures, json, lambda: print_triaged(figures))


@alerts.command("export")
def alerts_export(
    format: Annotated[
        Literal["csv", "jsonl", "ecs", "ocsf"],
        typer.Option("--format", help="A row, or a line of JSON, an alert."),
    ] = "jsonl",
    out: Annotated[
        Path | None,
        typer.Option(help="The file; it appears when it is complete.", show_default="standard output"),
    ] = None,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
) -> None:
    """Every alert for another system: `fingerprint alerts export --format ocsf --out findings.jsonl`.

    `csv` for spreadsheets, where no cell is a formula; `jsonl` with everything, raw records too; `ecs` (Elastic Common Schema)
    and `ocsf` (Detection Finding 2004) with the newest events and long texts cut.
    """
    from pipelines.exporting import export_alerts

    written = export_alerts(desk or settings_.load(settings).desk.url, format, out)
    if out:
        print(f"{written:,} alerts: {out}")


@app.command()
def deliver(
    once: Annotated[bool, typer.Option("--once", help="What is due now, then leave.")] = False,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Tell receivers of alerts what happened: webhooks, Slack, topics of Kafka, as `[deliver.NAME]` of the settings says.

    Each alert reaches each receiver at least once, under a key that stays the same, or is marked failed with the reason
    (`fingerprint deliveries list`). Several may run. Runs until SIGTERM, which finishes what is under way. Health and metrics:
    the settings `health.host` and `health.port`.
    """
    from pipelines.deliver import run
    from pipelines.deliveries import print_delivered

    figures = run(settings_.load(settings), desk, once)
    _print(figures, json, lambda: print_delivered(figures))


ReceiverName = Annotated[
    str, typer.Option("--receiver", help="Only this one's, by its name in the settings.", show_default=False)
]


@deliveries.command("list")
def deliveries_list(
    receiver: ReceiverName = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only what was given up.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 200,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What was told, what waits, and what was given up, with the reason."""
    from pipelines.deliveries import print_list, run_list

    found = run_list(desk or settings_.load(settings).desk.url, receiver, failed, limit)
    _print(found, json, lambda: print_list(found))


@deliveries.command("retry")
def deliveries_retry(
    key: Annotated[
        str, typer.Argument(metavar="[KEY]", help="As `deliveries list --json` names it.", show_default="all")
    ] = "",
    receiver: ReceiverName = "",
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Try anew what was given up."""
    from pipelines.deliveries import print_retried, run_retry

    figures = run_retry(desk or settings_.load(settings).desk.url, key, receiver)
    _print(figures, json, lambda: print_retried(figures))


@app.command()
def ingest(
    sqs: Annotated[
        str | None,
        typer.Option(
            "--sqs",
            metavar="QUEUE-URL",
            help="Read S3 objects instead, as this queue's notices name them (S3, SNS, EventBridge or CloudTrail); "
            "credentials, region and endpoint are boto3's: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL ...",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Until where the topic ended at the start, or the queue is empty, then leave."
        ),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Split what comes in the raw topic into records, keyed by who acted, for the events topic.

    What cannot be read becomes a dead letter; too many of them stop it. Runs until SIGTERM, which finishes the batch and
    commits. Health and metrics: the settings `health.host` and `health.port`.

    With --sqs a notice is deleted from the queue when all records of its objects have arrived. Several may share a queue:
    `fingerprint ingest --sqs https://sqs.eu-west-1.amazonaws.com/111122223333/trail`
    """
    from pipelines import show

    loaded = settings_.load(settings)
    if sqs:
        from pipelines.ingest_sqs import run as run_sqs

        figures = run_sqs(loaded, sqs, once)
    else:
        from pipelines.ingest import run

        figures = run(loaded, once)
    _print(figures, json, lambda: show.ingested(figures))


@app.command()
def stream(
    bank: BankFolder = Path("bank"),
    desk: DeskUrl = None,
    once: Annotated[
        bool, typer.Option("--once", help="Until where the topic ended at the start, then leave.")
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Score the events topic as it fills: alerts to the desk and their topic, single votes to theirs.

    Several may run: they share the partitions, and each partition's state moves with it through `state.snapshots`.
    Killed and started again, it goes on from the last snapshot and says the same again under the same ids. A bank that is
    published or rolled back to takes over within `bank.look_seconds` and a snapshot. Runs until
    SIGTERM, which finishes the batch, remembers and commits. Health and metrics: the settings `health.host` and
    `health.port`.
    """
    from pipelines import show
    from pipelines.stream import run

    figures = run(settings_.load(settings), bank, desk, once)
    _print(figures, json, lambda: show.streamed(figures))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 takes any that is free.", show_default="8080")
    ] = None,
    desk: DeskUrl = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
) -> None:
    """The analysts' pages and the API, over HTTP, until SIGTERM.

    The first start prints a link that makes the first admin, once: no password exists before somebody chose it. In front of
    anything but this machine put a proxy with TLS, and name it: `web.public_url` (docs/desk.md).
    """
    from pipelines.serve import run

    run(settings_.load(settings, options={"web": {"host": host, "port": port}}), desk, bank)


Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the account.", show_default=False)]


@users.command("list")
def users_list(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Every account: its role, whether it can log in, and when it last did."""
    from pipelines.users import print_persons, run_list

    found = run_list(settings_.load(settings), desk)
    _print(found, json, lambda: print_persons(found))


@users.command("add")
def users_add(
    name: Name,
    role: Annotated[Role, typer.Option(help="What they may.")] = "analyst",
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Make an account and print a link that sets its password, once: `fingerprint users add maria --role admin`."""
    from pipelines.users import print_link, run_invite

    figures = run_invite(settings_.load(settings), desk, name, role)
    _print(figures, json, lambda: print_link(figures))


@users.command("invite")
def users_invite(name: Name, desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Print a link that sets a new password, once, for an account that is there."""
    from pipelines.users import print_link, run_invite

    figures = run_invite(settings_.load(settings), desk, name, None)
    _print(figures, json, lambda: print_link(figures))


@users.command("role")
def users_role(
    name: Name,
    role: Annotated[Role, typer.Argument(help="What they may from now on.", show_default=False)],
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give an account another role; its sessions end."""
    from pipelines.users import print_persons, run_role

    figures = run_role(settings_.load(settings), desk, name, role)
    _print(figures, json, lambda: print_persons([figures]))


@users.command("disable")
def users_disable(
    name: Name,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End an account's sessions, tokens and links at once. Its name stays taken."""
    from pipelines.users import print_persons, run_disable

    figures = run_disable(settings_.load(settings), desk, name)
    _print(figures, json, lambda: print_persons([figures]))


@users.command("enable")
def users_enable(name: Name, desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Let a disabled account log in again; its tokens stay revoked."""
    from pipelines.users import print_persons, run_disable

    figures = run_disable(settings_.load(settings), desk, name, again=True)
    _print(figures, json, lambda: print_persons([figures]))


@app.command()
def replay(
    sources: Sources,
    topic: Annotated[
        str | None, typer.Option(help="Where to send them.", show_default="the raw topic of the settings")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Records a second.", show_default="no limit")] = None,
    speed: Annotated[
        float | None, typer.Option(help="Times real time, by eventTime.", show_default="no limit")
    ] = None,
    keyed: Annotated[
        bool, typer.Option("--keyed", help="Key each record by its principal, as ingest does.")
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Send records from files, folders or S3 to a topic, as fast as asked for."""
    from pipelines import show
    from pipelines.replay import run

    with show.progress(not json) as progress:
        figures = run(sources, topic, settings_.load(settings), progress, rate, speed, keyed)
    _print(figures, json, lambda: show.replayed(figures))


DeadOf = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help="Whose dead letters: the events topic has some too.",
        show_default="the raw topic of the settings",
    ),
]


@thresholds.command("show")
def threshold_show(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """What events are held to now, and who chose what."""
    from pipelines import threshold

    loaded = settings_.load(settings)
    figures = threshold.show(desk or loaded.desk.url, loaded)
    _print(figures, json, lambda: threshold.print_shown(figures))


@thresholds.command("foresee")
def threshold_foresee(
    bank: BankFolder = Path("bank"),
    desk: DeskUrl = None,
    days: Annotated[float, typer.Option(help="Of the desk's history that are asked.")] = 14.0,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """For 1 to 50 alerts a day: the threshold that shows them, and what it finds.

    By the single votes of the last days on the desk. *Confirmed attacks* are alerts that analysts called true positives, *known
    attacks* are labelled attack calls in the hands of the bank's own principals.
    """
    from pipelines import threshold

    loaded = settings_.load(settings)
    rows = threshold.foresee(desk or loaded.desk.url, bank, loaded, days)
    _print(rows, json, lambda: threshold.print_foreseen(rows))


@thresholds.command("set")
def threshold_set(
    why: Annotated[str, typer.Option(help="Whoever looks at it next wants to know.")],
    threshold: Annotated[
        float | None, typer.Option(help="A z of the autoencoder.", show_default="as the settings say")
    ] = None,
    quorum: Annotated[
        int | None, typer.Option(help="Votes that make a verdict.", show_default="as the settings say")
    ] = None,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hold events to a threshold and a quorum from now on, whatever the settings files say.

    Streams take it within a snapshot's time, `score` from its next run on. Without `--threshold` and `--quorum` what the
    settings say holds again.
    """
    from pipelines import threshold as chosen

    loaded = settings_.load(settings)
    figures = chosen.choose(desk or loaded.desk.url, loaded, why, threshold, quorum)
    _print(figures, json, lambda: chosen.print_shown(figures))


@dlq.command("list")
def dlq_list(topic: DeadOf = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Every letter that was not replayed yet: where it lay, why it is dead, how it begins."""
    from pipelines.dlq import of_topic, print_letters, run_list

    found = run_list(of_topic(settings_.load(settings), topic))
    _print(found, json, lambda: print_letters(found))


@dlq.command("replay")
def dlq_replay(
    sqs: Annotated[
        str | None,
        typer.Option(
            "--sqs",
            metavar="QUEUE-URL",
            help="Where notices came from: they go back there.",
            show_default=False,
        ),
    ] = None,
    topic: DeadOf = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give the letters back, byte for byte, to the topic or queue they came from, and mark them replayed."""
    from pipelines import show
    from pipelines.dlq import of_topic, run_replay

    figures = run_replay(of_topic(settings_.load(settings), topic), sqs)
    _print(figures, json, lambda: show.letters_replayed(figures))


def _option(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


OfPrincipal = Annotated[str, _option("--principal", "Alerts of this principal, by its whole name.")]
OfHuman = Annotated[str, _option("--human", "... of this human behind the session.")]
OfAccount = Annotated[str, _option("--account", "... whose calls all were in this account.")]
OfService = Annotated[str, _option("--service", "... whose events all are of this service: `glue`.")]
OfAction = Annotated[str, _option("--action", "... all call this: `glue:StartJobRun`, or `StartJobRun`.")]
OfNetwork = Annotated[str, _option("--network", "... all come from here: `10.3.0.0/16`, or an address.")]
OfAgent = Annotated[str, _option("--user-agent", "... all have a user agent that begins like this.")]
OfError = Annotated[str, _option("--error-code", "... all failed like this: `AccessDenied`.")]


@suppressions.command("list")
def suppressions_list(
    ended: Annotated[bool, typer.Option("--ended", help="Those that are over, too.")] = False,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What is hidden, why, at whose word and until when; how many alerts that were."""
    from pipelines.suppressions import print_list, run_list

    found = run_list(desk or settings_.load(settings).desk.url, ended)
    _print(found, json, lambda: print_list(found))


@suppressions.command("preview")
def suppressions_preview(
    principal: OfPrincipal = "",
    human: OfHuman = "",
    account: OfAccount = "",
    service: OfService = "",
    action: OfAction = "",
    network: OfNetwork = "",
    user_agent: OfAgent = "",
    error_code: OfError = "",
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What a suppression would hide of the alerts there are: `fingerprint suppressions preview --service glue`.

    All that is said must hold, for every event of an alert, letter by letter.
    """
    from fingerprint.casework import Match
    from pipelines.suppressions import print_preview, run_preview

    match = Match(principal, human, account, service, action, network, user_agent, error_code)
    figures = run_preview(desk or settings_.load(settings).desk.url, match)
    _print(figures, json, lambda: print_preview(figures))


@suppressions.command("add")
def suppressions_add(
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever reads it later.")],
    principal: OfPrincipal = "",
    human: OfHuman = "",
    account: OfAccount = "",
    service: OfService = "",
    action: OfAction = "",
    network: OfNetwork = "",
    user_agent: OfAgent = "",
    error_code: OfError = "",
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="When it ends, UTC: 2026-06-01.", show_default=False),
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Instead: in so many days, 366 at most.", show_default="30")
    ] = None,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hide alerts that need not be read: `... add --principal 111122223333:role/etl --service glue --why "the move" --days 14`.

    An alert is hidden while every event of it is as said; one event that is different shows it. Single votes are never hidden.
    `preview` with the same options says first what it would hide.
    """
    from fingerprint.casework import Match
    from pipelines.suppressions import print_added, run_add

    match = Match(principal, human, account, service, action, network, user_agent, error_code)
    figures = run_add(desk or settings_.load(settings).desk.url, match, why, until, days)
    _print(figures, json, lambda: print_added(figures))


@suppressions.command("end")
def suppressions_end(
    suppression_id: Annotated[str, typer.Argument(metavar="SUPPRESSION", help="As `list` names it.")],
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End a suppression: what it hid is seen again."""
    from pipelines.suppressions import print_ended, run_end

    figures = run_end(desk or settings_.load(settings).desk.url, suppression_id)
    _print(figures, json, lambda: print_ended(figures))


@tidy.command("prune")
def desk_prune(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Remove what is older than the settings keep it: `retention.raw_days`, `votes_days`, `alerts_days`; 0 is for ever.

    Alerts that are open stay. `fingerprint serve` does this every day; nobody who writes waits long for it.
    """
    from pipelines import show
    from pipelines.tidying import print_pruned, run_prune

    loaded = settings_.load(settings)
    with show.progress(not json) as progress:
        figures = run_prune(desk or loaded.desk.url, loaded.retention, progress)
    _print(figures, json, lambda: print_pruned(figures))


@tidy.command("purge")
def desk_purge(
    principal: Annotated[str, typer.Argument(help="Its whole name: `111122223333:user/maria`.")],
    yes: Annotated[bool, typer.Option("--yes", help="It cannot be undone.")] = False,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Remove all that the desk holds of one principal: alerts, events, votes, notes, dispositions, suppressions by its name.

    The audit keeps that it was done, with a digest in place of the name. What lies elsewhere is named, not reached.
    """
    from pipelines.tidying import print_purged, run_purge

    figures = run_purge(desk or settings_.load(settings).desk.url, principal, yes)
    _print(figures, json, lambda: print_purged(figures))


@notices.command("list")
def notices_list(
    desk: DeskUrl = None,
    still_open: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Feeds that fell silent although much was expected of them: an attacker's first move is to stop the log."""
    from pipelines.notices import print_notices, run_list

    found = run_list(desk or settings_.load(settings).desk.url, not still_open)
    _print(found, json, lambda: print_notices(found))


@snapshots.command("list")
def snapshots_list(settings: SettingsFile = None, json: Json = False) -> None:
    """The latest snapshot of each partition: where it reads on, its fence, when it was written, how large it is."""
    from pipelines.snapshots import print_snapshots, run_list

    found = run_list(settings_.load(settings))
    _print(found, json, lambda: print_snapshots(found))


Version = Annotated[str, typer.Argument(metavar="VERSION", help="As `fingerprint bank list` names it.")]
AnyVersion = Annotated[
    str | None,
    typer.Argument(metavar="[VERSION]", help="As `fingerprint bank list` names it.", show_default=False),
]
Why = Annotated[str, typer.Option("--why", help="The reason, for the history.", show_default=False)]


@banks.command("list")
def bank_list(bank: BankFolder = Path("bank"), json: Json = False) -> None:
    """Every version that is kept: what it learned, whether it is served, what the gate said."""
    from pipelines import bank_table
    from pipelines.bank import run_list

    found = run_list(bank)
    _print(found, json, lambda: bank_table.print_list(found))


@banks.command("show")
def bank_show(
    version: AnyVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """One version, by default the one that is served: span, who is ready, the largest and the quietest, its size."""
    from pipelines import bank_table
    from pipelines.bank import run_show

    figures = run_show(bank, settings_.load(settings), version)
    _print(figures, json, lambda: bank_table.print_show(figures))


@banks.command("diff")
def bank_diff(
    older: Annotated[str, typer.Argument(metavar="OLDER", help="The champion.")],
    newer: Annotated[str, typer.Argument(metavar="NEWER", help="The challenger.")],
    bank: BankFolder = Path("bank"),
    top: Annotated[int, typer.Option(min=0, help="So many fingerprints that moved furthest.")] = 10,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Two versions side by side: who came and went, losses, values, and whose behaviour moved furthest."""
    from pipelines import bank_table
    from pipelines.bank import run_diff

    figures = run_diff(bank, settings_.load(settings), older, newer, top)
    _print(figures, json, lambda: bank_table.print_diff(figures))


@banks.command("publish")
def bank_publish(
    version: Version,
    bank: BankFolder = Path("bank"),
    why: Why = "",
    force: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Serve it whatever the gate says; the reason is recorded.",
            show_default=False,
        ),
    ] = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Serve a version that is kept, through the gate. Exit status 3: the gate kept it back."""
    from pipelines import bank_table
    from pipelines.bank import run_publish

    figures = run_publish(bank, settings_.load(settings), version, why, force)
    _print(figures, json, lambda: bank_table.print_published(figures))
    _refused(None if figures["served"] else figures["refusal"])


@banks.command("rollback")
def bank_rollback(
    bank: BankFolder = Path("bank"), why: Why = "", settings: SettingsFile = None, json: Json = False
) -> None:
    """Serve the version that was served before; given again, the one before that."""
    from pipelines import bank_table
    from pipelines.bank import run_rollback

    figures = run_rollback(bank, settings_.load(settings), why)
    _print(figures, json, lambda: bank_table.print_rolled_back(figures))


@banks.command("verify")
def bank_verify(
    version: AnyVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hash every file of one version, or of all, and name what is wrong. Exit status 1: something is."""
    from pipelines import bank_table
    from pipelines.bank import run_verify

    figures = run_verify(bank, settings_.load(settings), version)
    _print(figures, json, lambda: bank_table.print_verified(figures))
    if figures["problems"]:
        raise typer.Exit(1)


def _workers(where: str | None) -> dict[str, dict[str, Any]]:
    """What `--workers` says of the settings."""
    return {"workers": {"where": where}}


def _refused(sentence: str | None) -> None:
    """Exit status 3 with one sentence: a bank is kept, not served."""
    if sentence:
        print(f"fingerprint: {sentence}", file=sys.stderr)
        raise typer.Exit(3)


@triton.command("load")
def triton_load(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """Put the bank's current version into the model repository and have the server serve it, beside the one before.

    Nobody's question is lost meanwhile. A bank that cannot be opened is refused, and what was served still is.
    """
    from pipelines.triton import print_status, run_load

    figures = run_load(bank, settings_.load(settings).triton)
    _print(figures, json, lambda: print_status(figures))


@triton.command("status")
def triton_status(settings: SettingsFile = None, json: Json = False) -> None:
    """Which versions of the bank lie in the repository, and how they stand at the server."""
    from pipelines.triton import print_status, run_status

    figures = run_status(settings_.load(settings).triton)
    _print(figures, json, lambda: print_status(figures))


def _print(figures: dict[str, Any] | list[dict[str, Any]], as_json: bool, human: Callable[[], None]) -> None:
    if as_json:
        import json

        typer.echo(json.dumps(figures, indent=1, default=str))
    else:
        human()


def main() -> None:
    """Run a program; what the user can mend is one sentence and exit status 2, never a traceback."""
    try:
        status = app(standalone_mode=False)
    except FingerprintError as error:
        _fail(str(error))
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        _fail(f"{error.format_message()} (see `{context.command_path if context else 'fingerprint'} --help`)")
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get((error.name or "").partition(".")[0])) is None:
            raise
        _fail(f"{error.name} is not installed: `pip install fingerprint[{extra}]` has it")
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(sentence: str) -> None:
    print(f"fingerprint: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
