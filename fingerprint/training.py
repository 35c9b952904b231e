"""History -> bank: collect what was done, count it, fit the nets, set the baselines, fill the series.

Example:
    >>> bank = train(chunks, settings, progress)        # chunks: events with entities, oldest first
    >>> int(bank.fingerprints["ready"].sum())
    412

Counts, nets and baselines come from different rows: likelihoods and nets are fitted on the first part of the history and
judged on the last (`autoencoder.held_out`); then the counts are taken of all of it, and the nets are moved along. So a
baseline says how surprising a *new* week is, not how well an old one was learned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import autoencoder, detectors, features, fitting, hashing, peers, quality, vocabulary
from fingerprint import baseline as baselines
from fingerprint.autoencoder import Baseline, Weights
from fingerprint.bank import Bank
from fingerprint.domain import LEVELS, FingerprintError
from fingerprint.hashing import Hashes
from fingerprint.ledger import Ledger
from fingerprint.measured import Measured, concat, prepare
from fingerprint.settings import Settings
from fingerprint.tables import find
from fingerprint.vocabulary import Vocabulary

Ints = NDArray[np.int32]
Progress = Callable[[str, int, int], None]  # stage, done, of

GENERIC_ROWS = 20_000  # rows the generic net sees at most, drawn by seed
SAMPLE_ROWS = 20_000  # rows kept for detectors that are fitted when they start


@dataclass
class Rows:
    """R distinct rows of (entity, interval, codes), oldest interval first, with how many events each stands for."""

    batch: Measured
    events: NDArray[np.float32]
    owners: NDArray[np.int32]  # (R, 4) the fingerprint of each row at each level, finest first


@dataclass
class Collected:
    """What one pass over the history leaves behind."""

    rows: list[Measured]
    events: list[NDArray[np.float32]]
    people: pd.DataFrame
    entities: pd.DataFrame
    words: pd.DataFrame
    ledger: Ledger
    total: int = 0
    repeats: int = 0


def train(chunks: Iterable[pd.DataFrame], settings: Settings, progress: Progress = lambda *_: None) -> Bank:
    """Learn all fingerprints of a history given as chunks of events with entities, oldest first.

    Raises FingerprintError if the history is empty. Fitting needs torch (the extra `train`).
    """
    collected = _collect(chunks, settings, progress)
    people = _people(collected, settings)
    stack, parent = _stack(collected, people, settings)
    rows = _rows(collected, stack)
    late = _held_out(rows, settings.autoencoder.held_out)
    ready = np.flatnonzero(stack["ready"].to_numpy())
    early_vocabulary = _count(rows, ~late, parent, settings)
    nets = _fit(early_vocabulary, rows, late, ready, settings, progress)
    baseline, figures = _baseline(early_vocabulary, nets, rows, late, stack, settings)
    full_vocabulary = _count(rows, np.ones(len(late), bool), parent, settings)
    nets = fitting.move(
        nets, early_vocabulary.codes[ready], full_vocabulary.codes[ready], np.arange(len(ready))
    )
    ledger = _fill_series(rows, full_vocabulary, collected, settings, progress)
    manifest = _manifest(collected, stack, figures, settings)
    return Bank(
        manifest,
        stack,
        people,
        collected.words,
        full_vocabulary,
        nets,
        baseline,
        {**ledger, **_sample(rows, settings)},
    )


# --- one pass over the history --------------------------------------------------------------------------------------


def _collect(chunks: Iterable[pd.DataFrame], settings: Settings, progress: Progress) -> Collected:
    nobody = pd.DataFrame({"hash": np.empty(0, np.uint64)})
    nothing = nobody.assign(owner=nobody["hash"])  # typed: a hash that became a float would name a neighbour
    out = Collected([], [], nobody, nothing, pd.DataFrame({"code": np.empty(0, np.uint64)}), Ledger(settings))
    for events in chunks:
        batch, repeats = prepare(events, out.ledger)
        out.repeats += repeats
        out.total += len(batch)
        if not len(batch):
            continue
        _name(out, batch)
        which, count = _distinct(batch)
        out.rows.append(_slim(batch.take(which)))
        out.events.append(count)
        out.ledger.see(batch.interval.astype(np.int64) * settings.spectral.interval_seconds)
        out.ledger.advance()
        progress("reading history", out.total, 0)
    if not out.rows:
        raise FingerprintError(
            "there is no event to learn from: name a file or folder with CloudTrail records"
        )
    out.words = out.words.sort_values("code", ignore_index=True)
    return out


def _distinct(batch: Measured) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    alike = hashing.mix(batch.owner, batch.interval.astype(np.uint64))
    for column in batch.codes.T:
        alike = hashing.mix(alike, column)
    _, which, count = np.unique(alike, return_index=True, return_counts=True)
    return which, count.astype(np.float32)


def _slim(batch: Measured) -> Measured:
    """Only what counting needs: no text travels further than the words."""
    frame = pd.DataFrame(
        {
            "action": "",
            "read_only": ~batch.wrote,
            "error_code": pd.Series(batch.failed).map({True: "failed", False: None}),
            "service": batch.frame["service"].astype("category"),
        }
    )
    return replace(batch, frame=frame)


def _name(out: Collected, batch: Measured) -> None:
    """Keep the text of principals, entities and values that were not met before."""
    frame = batch.frame
    out.people = _fresh(out.people, batch.principal, frame, ["principal", "kind", "role"])
    entities = frame.assign(owner=batch.principal)
    out.entities = _fresh(out.entities, batch.entity, entities, ["entity", "owner", "service"])
    for place, feature in enumerate(features.FEATURES):
        code, first = np.unique(batch.codes[:, place], return_index=True)
        new = ~np.isin(code, out.words["code"].to_numpy())
        if new.any():
            text = feature.values(frame.iloc[first[new]]).astype(object).fillna("(none)").to_numpy()
            out.words = pd.concat(
                [out.words, pd.DataFrame({"code": code[new], "text": text})], ignore_index=True
            )


def _fresh(table: pd.DataFrame, hashes: Hashes, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    distinct, first = np.unique(hashes, return_index=True)
    new = ~np.isin(distinct, table["hash"].to_numpy())
    rows = frame.iloc[first[new]][columns].astype({name: object for name in columns if name != "owner"})
    return pd.concat([table, rows.assign(hash=distinct[new])], ignore_index=True)


# --- the stack ------------------------------------------------------------------------------------------------------


def _people(collected: Collected, settings: Settings) -> pd.DataFrame:
    people = collected.people.sort_values("hash", ignore_index=True)
    people["peer"] = peers.peer_groups(people)
    people["peer"] = peers.by_services(people, _usage(collected, people), settings.autoencoder.seed)
    return people


def _usage(collected: Collected, people: pd.DataFrame) -> pd.DataFrame:
    """Events per principal and service."""
    names = people.set_index("hash")["principal"]
    parts = [
        pd.DataFrame(
            {
                "principal": batch.principal,
                "service": batch.frame["service"].astype(object).to_numpy(),
                "events": events,
            }
        )
        for batch, events in zip(collected.rows, collected.events, strict=True)
    ]
    usage = pd.concat(parts).groupby(["principal", "service"], as_index=False)["events"].sum()
    return usage.assign(principal=usage["principal"].map(names))


def _stack(collected: Collected, people: pd.DataFrame, settings: Settings) -> tuple[pd.DataFrame, Ints]:
    """The fingerprints, generic first, parents before children, and each one's parent (E,)."""
    groups = people["peer"].drop_duplicates().sort_values().to_numpy(dtype=object)
    entities = collected.entities.sort_values("hash", ignore_index=True)
    sizes = [1, len(groups), len(people), len(entities)]
    keys = np.concatenate([["everybody"], groups, people["principal"], entities["entity"]]).astype(object)
    level = np.repeat([3, 2, 1, 0], sizes)
    of_group = 1 + np.searchsorted(groups, people["peer"].to_numpy(dtype=object))
    of_entity = 1 + len(groups) + find(people["hash"].to_numpy(), entities["owner"].to_numpy(np.uint64))[0]
    if settings.entities.granularity == "service":
        of_entity = np.zeros(len(entities), int)  # a service's entity is shared by all principals
    parent = np.concatenate([[-1], np.zeros(len(groups), int), of_group, of_entity]).astype(np.int32)
    hashes = np.concatenate(
        [hashing.of(pd.Series(keys[: 1 + len(groups)])), people["hash"], entities["hash"]]
    )
    stack = pd.DataFrame(
        {"key": keys, "hash": hashes.astype(np.uint64), "level": level.astype(np.int8), "parent": parent}
    )
    return _with_history(stack, collected, settings), parent


def _with_history(stack: pd.DataFrame, collected: Collected, settings: Settings) -> pd.DataFrame:
    """Events, days, first and last interval of each fingerprint, and whether it is ready to speak for itself."""
    owners = [_owners(stack, batch) for batch in collected.rows]
    per_day = 86400 // settings.spectral.interval_seconds
    owner = np.concatenate(owners).ravel()
    interval = np.repeat(np.concatenate([batch.interval for batch in collected.rows]), len(LEVELS))
    events = np.repeat(np.concatenate(collected.events), len(LEVELS))
    table = pd.DataFrame({"owner": owner, "interval": interval, "events": events, "day": interval // per_day})
    history = table.groupby("owner").agg(
        events=("events", "sum"), days=("day", "nunique"), first=("interval", "min"), last=("interval", "max")
    )
    stack = stack.join(history)
    options = settings.entities
    stack["ready"] = (stack["events"] >= options.ready_events) & (stack["days"] >= options.ready_days)
    stack.loc[0, "ready"] = True
    return stack


def _owners(stack: pd.DataFrame, batch: Measured) -> Ints:
    """The fingerprint of each row at each level, finest first: (N, 4)."""
    levels, hashes = stack["level"].to_numpy(), stack["hash"].to_numpy()
    parent = stack["parent"].to_numpy()
    out = np.zeros((len(batch), len(LEVELS)), np.int32)
    for level, keys in ((0, batch.entity), (1, batch.principal)):
        rows = np.flatnonzero(levels == level)
        order = rows[np.argsort(hashes[rows])]
        out[:, level] = order[find(hashes[order], keys)[0]]
    out[:, 2] = parent[out[:, 1]]
    return out


def _rows(collected: Collected, stack: pd.DataFrame) -> Rows:
    batch, events = concat(collected.rows), np.concatenate(collected.events)
    order = np.argsort(batch.interval, kind="stable")
    batch = batch.take(order)
    return Rows(batch, events[order], _owners(stack, batch))


def _held_out(rows: Rows, share: float) -> NDArray[np.bool_]:
    """The last share of the history (R,), cut between intervals where there are several."""
    interval = rows.batch.interval
    cut = interval[int(len(interval) * (1 - share))]
    late = interval >= cut
    return late if not late.all() else np.arange(len(interval)) >= len(interval) * (1 - share)


# --- counting, fitting, baselines -----------------------------------------------------------------------------------


def _count(rows: Rows, which: NDArray[np.bool_], parent: Ints, settings: Settings) -> Vocabulary:
    """The vocabulary of some rows: units are intervals, then principal-days in a group, principals in the organisation."""
    batch, owners = rows.batch.take(which), rows.owners[which]
    day = (batch.interval * settings.spectral.interval_seconds // 86400).astype(np.uint64)
    units = {
        3: batch.principal,
        2: hashing.mix(batch.principal, day),
        1: batch.interval.astype(np.uint64),
        0: batch.interval.astype(np.uint64),
    }
    levels = [vocabulary.presences(owners[:, level], unit, batch.codes) for level, unit in units.items()]
    return vocabulary.build(levels, parent, settings.autoencoder.vocabulary)


def _fit(
    known: Vocabulary,
    rows: Rows,
    late: NDArray[np.bool_],
    ready: NDArray[np.intp],
    settings: Settings,
    progress: Progress,
) -> Weights:
    early, held = _slots(known, rows, ~late, settings), _slots(known, rows, late, settings)
    done = 0

    def advance(nets: int) -> None:
        nonlocal done
        done += nets
        progress("fitting", done, len(ready))

    return fitting.fit(known, early, held, ready, settings.autoencoder, advance)


def _slots(known: Vocabulary, rows: Rows, which: NDArray[np.bool_], settings: Settings) -> fitting.Rows:
    """Slots of the rows at every level's fingerprint; the generic one sees a sample."""
    random = np.random.default_rng(settings.autoencoder.seed)
    owner, slots = [], []
    for level in range(len(LEVELS)):
        place = np.flatnonzero(which)
        if LEVELS[level] == "generic" and len(place) > GENERIC_ROWS:
            place = np.sort(random.choice(place, GENERIC_ROWS, replace=False))
        owner.append(rows.owners[place, level])
        slots.append(known.look_up(rows.owners[place, level], rows.batch.codes[place])[1])
    return fitting.Rows.of(np.concatenate(owner), np.concatenate(slots), len(known.parent))


def _baseline(
    known: Vocabulary,
    nets: Weights,
    rows: Rows,
    late: NDArray[np.bool_],
    stack: pd.DataFrame,
    settings: Settings,
) -> tuple[Baseline, dict[str, Any]]:
    """Losses of the held-out rows at every level, novelties discounted as they are when scoring."""
    batch, owners, ready = rows.batch.take(late), rows.owners[late], stack["ready"].to_numpy()
    parent, options = stack["parent"].to_numpy(), settings.autoencoder
    per_day = 86400 // settings.spectral.interval_seconds
    losses = []
    for level in range(len(LEVELS)):
        at = replace(batch, fingerprint=owners[:, level])
        loss, seen = autoencoder.losses(known, nets, at.fingerprint, at.codes)
        losses.append(detectors.familiar(loss, seen, known, at, Ledger(settings)))
    center = baselines.center_of(np.concatenate(losses), owners.T.ravel(), parent)
    middle = baselines.middle_of(np.concatenate(losses), owners.T.ravel(), parent, center, options)
    finest = np.argmax(ready[owners], axis=1)  # the generic one always is
    held = baselines.HeldOut(
        np.stack(losses)[finest, np.arange(len(batch))],
        owners[np.arange(len(batch)), finest],
        batch.principal,
        batch.interval,
        batch.codes,
    )
    above, day = baselines.reach_of(held, center, middle, options, per_day)
    scale = baselines.scale_of(above, day, options)
    baseline = Baseline(center, middle, np.full(len(parent), scale, np.float32))
    return baseline, quality.figures(
        held.loss.sum(1), above / np.float32(scale), day, held.interval // per_day, baseline, options
    )


def _fill_series(
    rows: Rows, known: Vocabulary, collected: Collected, settings: Settings, progress: Progress
) -> dict[str, NDArray[Any]]:
    """The series and counts as they stand at the end of the history, flagged intervals clipped, day by day."""
    ledger, batch = collected.ledger, rows.batch
    slot = known.look_up(rows.owners[:, 0], batch.codes)[1][:, detectors.ACTION]
    busy = (slot > 0) & (slot <= settings.spectral.busiest_actions)
    days = batch.interval // ledger.series.per_day
    ledger.seen = Ledger(settings).seen
    for day in np.unique(days):
        here = np.flatnonzero(days == day)
        part = batch.take(here)
        cells = detectors.count(part, ledger, np.zeros(len(part), bool), busy[here], rows.events[here])
        ledger.series.z(
            ledger.series.find(cells.ravel()), np.repeat(part.interval, cells.shape[1])
        )  # forecasts, by which the day is clipped
        ledger.series.roll((int(day) + 1) * ledger.series.per_day)
        progress("series", int(day - days[0]) + 1, int(days[-1] - days[0]) + 1)
    return ledger.as_arrays(("principals", "activity", "firsts", "series"))


def _sample(rows: Rows, settings: Settings) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(settings.autoencoder.seed)
    place = np.sort(random.permutation(len(rows.batch))[:SAMPLE_ROWS])
    return {"sample.codes": rows.batch.codes[place], "sample.fingerprint": rows.owners[place, 0]}


def _manifest(
    collected: Collected, stack: pd.DataFrame, figures: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    seconds = settings.spectral.interval_seconds
    first, last = (int(stack[name].iloc[0]) for name in ("first", "last"))
    span = [pd.Timestamp(at * seconds, unit="s", tz="UTC").isoformat() for at in (first, last + 1)]
    manifest = {
        "span": span,
        "events": collected.total,
        "repeats": collected.repeats,
        "fingerprints": len(stack),
        "ready": {
            name: int((stack["ready"] & (stack["level"] == number)).sum())
            for number, name in enumerate(LEVELS)
        },
        "watermark": collected.ledger.watermark,
        "settings": settings.model_dump(mode="json"),
        "features": list(features.NAMES),
        "quality": figures,
    }
    digest = hashlib.sha256(
        json.dumps(manifest, sort_keys=True).encode() + stack["hash"].to_numpy().tobytes()
    )
    return {**manifest, "version": f"{span[1][:10]}-{digest.hexdigest()[:8]}"}
