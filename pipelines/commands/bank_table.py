"""Tables and summaries of `fingerprint bank`. Text from records is sanitised first."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.core.sanitize import printable
from fingerprint.registry.vote_rates import RatesByKind, votes_by_kind
from fingerprint.web import formatting
from pipelines.cli import console

MAX_DRIFTED_SHOWN = 10  # of the fingerprints whose threshold moved furthest


def print_versions(found: list[dict[str, Any]]) -> None:
    """Print a table of versions."""
    table = Table(
        "", "version", "learned (UTC)", "events", "ready", "size", "promotion gate", box=None, pad_edge=False
    )
    for each in found:
        mark = "served" if each["served"] else ""
        if each["problem"]:
            table.add_row(mark, each["version"], "", "", "", "", _text(each["problem"]))
            continue
        ready = f"{sum(each['ready'].values()):,} of {each['fingerprints']:,}"
        span = " to ".join(moment[:10] for moment in each["span"])
        table.add_row(
            mark,
            each["version"],
            span,
            f"{each['events']:,}",
            ready,
            _size(each["bytes"]),
            _decision_text(each),
        )
    console.fit_columns(table, whole=("version",), words=("", "learned (UTC)", "events", "ready", "size"))
    Console().print(table)


def _decision_text(each: dict[str, Any]) -> Text:
    """Return the words for the last decision on a version, with its reason."""
    last = each["last_decision"] or {}
    how = (
        "served by force: "
        if last.get("forced")
        else {"refused": "rejected: "}.get(last.get("action", ""), "")
    )
    return _text(f"{how}{last.get('why') or 'never asked'}")


def print_version(figures: dict[str, Any]) -> None:
    """Print one version."""
    span, ready = figures["span"], figures["ready"]
    print(f"bank {figures['version']}, {'served' if figures['served'] else 'not served'}")
    print(
        f"learned {span[0][:16]} to {span[1][:16]} UTC: {figures['events']:,} events, {figures['duplicates']:,} duplicates"
    )
    print(
        f"ready: {ready['entity']:,} of {figures['entities']:,} entities, {ready['principal']:,} of "
        f"{figures['principals']:,} principals, {ready['peer']:,} peer groups; {figures['values']:,} values known"
    )
    quality = figures["quality"]
    print(
        f"held out: {quality['rows']:,} rows of {_held_out_days(quality['days'])}, loss {_quantiles(quality['loss'])} nats; "
        f"{quality['votes_per_day']:.1f} principals with a vote a day"
    )
    if any(figures.get("left_out", {}).values()):
        print(
            f"left out of training: {console.nonzero_counts(figures['left_out'], console.EXCLUSION_REASONS)}"
        )
    print(
        f"on disk: {_size(figures['bytes'])}, series apart {figures['bytes_an_entity']:,} bytes an entity, "
        f"{figures['bytes_with_net']:,} with a net of its own"
    )
    for title, name in (("largest", "largest"), ("quietest that are ready", "quietest_ready")):
        print(f"{title}:")
        for each in figures[name]:
            print(f"  {each['events']:>10,} events on {each['days']:>3} days  {printable(each['key'])}")
    _print_shifted_thresholds(
        "thresholds adjusted by dispositions", figures["shifted"], figures["shifted"]["furthest"]
    )
    if tried := (figures["gate"] or {}).get("confirmed"):
        print(f"attacks that analysts confirmed: {_attacks_found(tried)}")
    _print_vote_rates(quality["vote_rates"])
    for name, title in (("reasons", "promotion gate"), ("warnings", "promotion gate, a warning")):
        for sentence in (figures["gate"] or {}).get(name, []):
            print(f"{title}: {printable(sentence)}")


def _held_out_days(days: float) -> str:
    return f"{days} days" if days else "less than a day"


def _print_vote_rates(rates: dict[str, RatesByKind]) -> None:
    """Print a row for each kind of principal, with the share of its held-out events that each detector votes for."""
    from fingerprint.detection.detectors import detector_label  # imports SciPy, which lists do not need

    table = Table(
        "votes on held-out events",
        *(detector_label(name) for name in rates),
        "events",
        box=None,
        pad_edge=False,
    )
    for kind, events, shares in votes_by_kind(rates):
        table.add_row(
            _text(kind), *("" if share is None else f"{share:.1%}" for share in shares), f"{events:,}"
        )
    Console().print(table)


def _attacks_found(tried: dict[str, Any]) -> str:
    """Return the words for how many of the injected attacks this bank and the bank before it find."""
    before, now = tried["before"], tried["now"]
    return f"finds {now['found']:,} of {now['attacks']:,}, the bank before {before['found']:,}"


def print_version_diff(figures: dict[str, Any]) -> None:
    """Print the differences of two versions."""
    entities, drift, values = figures["entities"], figures["drift"], figures["values"]
    print(f"from {figures['older']} to {figures['newer']}")
    print(
        f"entities: {entities['added']:,} added, {entities['removed']:,} removed; {entities['became_ready']:,} became ready, "
        f"{entities['no_longer_ready']:,} are ready no longer"
    )
    print(f"values: {values['added']:,} added, {values['removed']:,} removed")
    table = Table("quantiles", "older", "newer", box=None, pad_edge=False)
    for title, name in (
        ("loss, same sample", "loss_on_sample"),
        ("loss, each its own held-out days", "loss_held_out"),
    ):
        table.add_row(title, *(_quantiles(figures[name][side]) for side in ("older", "newer")))
    table.add_row("votes a day", *(f"{figures['votes_per_day'][side]:.1f}" for side in ("older", "newer")))
    Console().print(table)
    print(
        f"drift of {drift['fingerprints']:,} that are ready in both: {_quantiles(drift['quantiles'])}; furthest:"
    )
    for each in drift["top"]:
        print(f"  {each['drift']:.2f}  {each['level']:<9}  {printable(each['key'])} ({each['most']})")
    moved = figures["shifted"]["entities"]
    title = f"thresholds that dispositions adjusted since: {len(moved):,}; furthest"
    _print_shifted_thresholds(title, figures["shifted"], moved[:MAX_DRIFTED_SHOWN])


def _print_shifted_thresholds(title: str, shifted: dict[str, Any], moved: list[dict[str, Any]]) -> None:
    """Print a line for each adjusted threshold: `  4.0 + 0.7 (3 alerts closed as benign)  123456789012:user/ana|s3|direct`."""
    if not moved:
        return
    print(f"{title}:")
    for each in moved:
        threshold = formatting.format_threshold(
            shifted["threshold"], each["shift"], each["benign"], each["malicious"]
        )
        before = f", was {shifted['threshold'] * (1 + each['before']):.1f}" if each["before"] else ""
        print(f"  {threshold}{before}  {printable(each['key'])}")


def print_publication(figures: dict[str, Any]) -> None:
    """Print the outcome of a promotion."""
    if figures["served"]:
        how = " by force" if figures["forced"] else ""
        print(f"serving {figures['version']}{how}; before: {figures['before'] or 'nothing'}")


def print_rollback(figures: dict[str, Any]) -> None:
    """Print the outcome of a rollback."""
    print(f"serving {figures['version']} again, instead of {figures['before']}")


def print_verification(figures: dict[str, Any]) -> None:
    """Print the problems that a verification found."""
    for problem in figures["problems"]:
        print(printable(problem))
    if not figures["problems"]:
        keys = ", ".join(figures["keys"])
        vouched = (
            f"signed by a key of {keys}" if keys else "no signature was asked for: set bank.verify_key_files"
        )
        print(f"sound: {', '.join(figures['versions'])} ({vouched})")


def _quantiles(values: dict[str, float]) -> str:
    return ", ".join(f"{float(share):.0%} {value:.2f}" for share, value in values.items()) or "none"


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1024:,.0f} KiB"


def _text(text: str) -> Text:
    return Text(printable(text), overflow="fold")
