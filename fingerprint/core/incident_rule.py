"""The rule of incidents: which alerts are of one attack, by what they share and by what people said.

Example:
    >>> links = [AlertLink("a1", "principal", "maria", 0, 600), AlertLink("a2", "principal", "maria", 4_000, 4_600)]
    >>> group_alerts(links)["a2"]
    Membership(incident_id='a1', reason='principal', value='maria', with_alert='a1')

Two alerts are linked where they share a principal, a person (at several roles, or in several accounts), an access key, a
credential chain (one used a key that issued the other's, or both have an issuer in common, or one is the sign-in that began the
other's session) or a source address, and at most GAP_SECONDS lie between the end of one and the beginning of the other; and where
they hold two records of one call, the caller's and that of the account it was made on. Linked alerts are one incident. Some
things keep an incident from swallowing its surroundings:

- An address links only alerts whose principals had never or hardly used its network before, and not where more than
  MANY_PRINCIPALS used it in the history: the address of an office, a VPN or a NAT gateway is usual for those behind it, also when
  a colleague comes by it for the first time. Names of cloud services and private addresses are no addresses.
- A key, address or call that more than MAX_PRINCIPALS principals showed within RECENT_SECONDS links none of these alerts.
  Principals of one name in several accounts (a role that is rolled out, or root) are linked by such an address all the same.
- An alert whose calls made a user or role, or let someone into one, is linked with that one's alerts of the next day. The name is
  that of a call which AWS carried out, at most MAX_OPENED an alert.
- Principals of one name in several accounts, no persons, are linked where one service made all calls for them, as a rollout of
  stacks does, with at most an hour between them, and where an action is new to both that does not serve attackers.
- MIN_PRINCIPALS or more that call the same new action on one day (UTC), or the same few, are linked where one surprises most,
  their impact is minor at most, and nothing else is grave, or new to the organisation as a network or tool may be: a certificate
  that every machine fetches is one incident, and so is a scanner's upgrade. An alert that another link joins with one that does
  not show the same actions stays there: an attack of several steps does not join.
- Links are taken in order, the surest kind and the shortest gap first, and none that makes an incident larger than MAX_ALERTS.

An incident has the id of its oldest alert, so an older alert that joins changes the id; every alert's id finds its incident. The
result is a function of the alerts and of what people said, and not of the order in which alerts were saved.

What a person says goes before the rule: an alert that was split off is linked by hand alone, whatever comes later, and alerts
that were joined stay together. Edits are replayed in their order, so one can be undone without losing the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from fingerprint.core.alert import GRAVE_OR_SEVERE, MANY_PRINCIPALS, ORDER_FEATURE
from fingerprint.core.incident import IncidentEdit, LinkKind, LinkReason
from fingerprint.core.time_range import DAY_SECONDS

Network = IPv4Network | IPv6Network

GAP_SECONDS = 6 * 3600  # between two alerts that touch
GAPS: Mapping[LinkKind, int] = {  # of kinds that link over another gap
    "shared_call": 3600,  # both alerts hold it: its two records have one time
    "service": 3600,
    "opened": DAY_SECONDS,
}
# Before and after an alert, in which principals of a key or an address are counted
RECENT_SECONDS = 7 * DAY_SECONDS
# Of a key, an address or a call that links; a call is recorded for its caller, and where what it touched lies.
MAX_PRINCIPALS: Mapping[LinkKind, int] = {"access_key": 20, "address": 5, "shared_call": 5}
MIN_PRINCIPALS = 5  # that call the same new actions on one day
MAX_NEW_ACTIONS = 6  # of an alert: beside three transitions they are among the ten drivers that are stored
MAX_ALERTS = 200  # of one incident
MAX_VALUES = 50  # keys, addresses, and shared calls, of one alert
MAX_OPENED = 10  # users and roles that one alert made or opened
NEW_RARITIES = ("unseen", "rare")  # of a network whose addresses link
_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_INSIDE = tuple(  # networks whose addresses many hosts have
    ip_network(each)
    for each in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "fc00::/7",
        "fe80::/10",
        "::1/128",
    )
)


class AlertLink(NamedTuple):
    """A value by which an alert may be linked, and its first and last event in seconds since 1970.

    The value of `opened` is that of the `principal` which an alert made, or let someone into. `inherited`: the key is not one
    that the alert used, but issued one of those, or was issued to a caller without a key, or to a user whom the alert gave it.
    """

    alert_id: str
    kind: LinkKind
    value: str
    first_at: int
    last_at: int
    inherited: bool = False


class Membership(NamedTuple):
    """The incident of an alert, and what it shares with which other alert there; the first alert has no other."""

    incident_id: str
    reason: LinkReason = "first"
    value: str = ""
    with_alert: str = ""


def new_addresses(addresses: Iterable[str], drivers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the addresses of an alert that lie in a network which was new to its principal, as its drivers say.

    Example:
        >>> new_addresses(["203.0.113.7", "lambda.amazonaws.com"], [{"seen": "203.0.113.0/24", "rarity": "unseen"}])
        ['203.0.113.7']
    """
    networks = [network for network, _ in _new_networks(drivers)]
    found = {address for address in addresses if _is_in(address, networks)} if networks else set()
    return sorted(found)[:MAX_VALUES]


def linking_addresses(addresses: Iterable[str], drivers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the new addresses of an alert whose network is not usual for others: the narrowest one that is named says it.

    Example:
        >>> proxy = {"seen": "203.0.113.0/24", "rarity": "unseen", "principals": 40}
        >>> linking_addresses(["203.0.113.7"], [proxy])
        []
    """
    listed = [*drivers]
    narrowest_first = sorted(_new_networks(listed), key=lambda each: -each[0].prefixlen)
    return [
        address
        for address in new_addresses(addresses, listed)
        if next(many for network, many in narrowest_first if ip_address(address) in network)
        <= MANY_PRINCIPALS
    ]


def _new_networks(drivers: Iterable[Mapping[str, Any]]) -> list[tuple[Network, int]]:
    """Return the networks that drivers say are new, and how many principals used each in the history."""
    found = []
    for driver in drivers:
        seen = str(driver["seen"])
        if driver["rarity"] in NEW_RARITIES and "/" in seen:
            try:
                found.append((ip_network(seen, strict=False), driver.get("principals", 0)))
            except ValueError:
                continue
    return found


def name_at_address(principal: str, address: str) -> str:
    """Return what principals of one name in several accounts share at an address: the name without its account, and the address.

    Example:
        >>> name_at_address("123456789012:role/Audit", "203.0.113.7")
        'role/Audit 203.0.113.7'
    """
    return f"{principal.partition(':')[2]} {address}"


def new_actions(drivers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the actions that were new to an alert's principal, sorted, as its drivers say.

    Example:
        >>> new_actions([{"feature": "action", "seen": "s3:ListAccessGrants", "rarity": "unseen"}])
        ['s3:ListAccessGrants']
    """
    return sorted({str(each["seen"]) for each in drivers if _is_new_action(each)})


def names_with_actions(principal: str, actions: Iterable[str]) -> list[str]:
    """Return what principals of one name in several accounts share that begin to do the same: the name and each action.

    An upgrade of a scanner that runs in fourteen accounts is one incident, wherever it comes from and however much it reads.

    Example:
        >>> names_with_actions("123456789012:role/Audit", ["s3:ListAccessGrants"])
        ['role/Audit s3:ListAccessGrants']
    """
    name = principal.partition(":")[2]
    return [f"{name} {action}" for action in actions][:MAX_VALUES]


def _is_new_action(driver: Mapping[str, Any]) -> bool:
    return (driver["feature"], driver["rarity"]) == ("action", "unseen")


def shared_new_actions(
    drivers: Iterable[Mapping[str, Any]], actions: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the new actions of an alert, sorted, where one surprises most and nothing else is grave or new to the organisation.

    `drivers` and `actions` (`Alert.impact_of`) are the alert's. Empty where anything surprises more, an action has an impact, or
    there are more than MAX_NEW_ACTIONS: the drivers of an alert are not all stored.

    Example:
        >>> action = {"feature": "action", "seen": "acm:GetCertificate", "rarity": "unseen", "surprise": 10.0, "principals": 0}
        >>> shared_new_actions([action, action | {"seen": "acm:ListCertificates"}], [])
        ('acm:GetCertificate', 'acm:ListCertificates')
        >>> network = {"feature": "network", "seen": "167.99.0.0/16", "rarity": "unseen", "surprise": 7.0, "principals": 0}
        >>> shared_new_actions([action, network], [])
        ()
    """
    listed = [each for each in drivers if each["feature"] != ORDER_FEATURE]
    new = [*filter(_is_new_action, listed)]
    if not new:
        return ()
    lead = max(new, key=lambda each: (each["surprise"], each["seen"]))
    names = {str(each["seen"]) for each in new if each is lead or _is_new_to_most(each)}
    own = tuple(f"{name}{end}" for name in names for end in ("(", " on "))  # parameters, what was touched
    beside = [each for each in listed if each["seen"] not in names and not str(each["seen"]).startswith(own)]
    strange = any(each["surprise"] > lead["surprise"] or _is_new_to_most(each) for each in beside)
    grave = any(
        each["gravity"] in GRAVE_OR_SEVERE or (each["action"] in names and each["gravity"] == "notable")
        for each in actions
    )
    return () if strange or grave or len(names) > MAX_NEW_ACTIONS else tuple(sorted(names))


def _is_new_to_most(driver: Mapping[str, Any]) -> bool:
    """Return whether a driver is new to its principal, and at most MANY_PRINCIPALS of the history showed it."""
    return driver["rarity"] in NEW_RARITIES and driver.get("principals", 0) <= MANY_PRINCIPALS


def forwarding_service(calls: Iterable[tuple[str, str]]) -> str:
    """Return the service that made all calls of an alert for its principal; calls are (entity, source), empty text for none.

    Example:
        >>> forwarding_service([("123456789012:role/stacks-exec|iam|service", "cloudformation.amazonaws.com")])
        'cloudformation.amazonaws.com'
    """
    sources = set()
    for entity, source in calls:
        sources.add(source if entity.endswith("|service") and not _is_address(source) else "")
    return sources.pop() if len(sources) == 1 else ""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: str, networks: Sequence[object]) -> bool:
    if not _is_address(address):
        return False
    there = ip_address(address)
    return any(there in network for network in networks) and not any(there in each for each in _INSIDE)  # type: ignore[operator]


# --- the rule ---------------------------------------------------------------------------------------------------------


class _Edge(NamedTuple):
    """A link of two alerts; sorted, the surest comes first."""

    rank: int
    gap: int
    later_at: int
    later: str
    earlier: str
    reason: LinkReason
    value: str


def group_alerts(
    links: Iterable[AlertLink], edits: Iterable[IncidentEdit] = (), most: int = MAX_ALERTS
) -> dict[str, Membership]:
    """Return the membership of each alert, given all links of these alerts that are not too common.

    Every alert has a link by its principal, which gives its time.
    """
    listed = list(links)
    order = {each.alert_id: (each.first_at, each.alert_id) for each in listed}
    apart, pairs = replay_edits(edits)
    groups = _Groups(order)
    known = [pair for pair in sorted(pairs) if pair[0] in order and pair[1] in order]
    for one, other in known:
        groups.join(one, other)
    together = [each for each in listed if each.alert_id not in apart]
    edges = sorted((*_rule_edges(together), *_opening_edges(together)))
    for edge in edges:
        groups.join(edge.earlier, edge.later, most)
    alike = sorted(_new_action_edges(together, groups))
    for edge in alike:
        groups.join(edge.earlier, edge.later, most)
    reasons = _reasons([*edges, *alike], known, groups, order)
    found = {}
    for members in groups.sets():
        first = min(members, key=order.__getitem__)
        for alert_id in members:
            shared = reasons.get(alert_id, ()) if alert_id != first else ()
            found[alert_id] = Membership(first, *shared)
    return found


def replay_edits(edits: Iterable[IncidentEdit]) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the alerts that no rule links any more, and the pairs that are joined by hand; undone edits count for nothing."""
    apart: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for edit in sorted(edits, key=lambda each: (each.at, each.edit_id)):
        if edit.undone:
            continue
        if edit.kind == "split":
            moved = {*edit.alert_ids}
            apart |= moved
            pairs = {pair for pair in pairs if (pair[0] in moved) == (pair[1] in moved)}
            pairs |= {_pair(edit.alert_ids[0], other) for other in edit.alert_ids[1:]}
        else:
            pairs.add(_pair(edit.alert_ids[0], edit.with_alert))
    return apart, pairs


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _opening_edges(links: Sequence[AlertLink]) -> Iterator[_Edge]:
    """Yield a link of each alert that made or opened a principal with each alert of that one which does not end before it."""
    own: dict[str, list[AlertLink]] = defaultdict(list)
    for each in links:
        if each.kind == "principal":
            own[each.value].append(each)
    for opener in links:
        for opened in own[opener.value] if opener.kind == "opened" else ():
            gap = max(0, opened.first_at - opener.last_at)
            if (
                opened.last_at >= opener.first_at
                and gap <= GAPS["opened"]
                and opened.alert_id != opener.alert_id
            ):
                at = _KINDS.index("opened"), gap, opened.first_at
                yield _Edge(*at, opened.alert_id, opener.alert_id, "opened", "")


def _rule_edges(links: Sequence[AlertLink]) -> Iterator[_Edge]:
    """Yield a link of each alert with the one before it that shares a value and ends last, where they touch."""
    rows = sorted(
        (each for each in links if each.kind not in ("opened", "new_action")),
        key=lambda each: (each.kind, each.value, each.first_at, each.alert_id),
    )
    before: AlertLink | None = None
    for row in rows:
        if before is None or (before.kind, before.value) != (row.kind, row.value):
            before = row
            continue
        gap = max(0, row.first_at - before.last_at)
        if gap <= GAPS.get(row.kind, GAP_SECONDS):
            chained = row.inherited or before.inherited
            reason: LinkReason = "credential_chain" if chained else row.kind
            rank = _KINDS.index(row.kind)
            yield _Edge(rank, gap, row.first_at, row.alert_id, before.alert_id, reason, row.value)
        before = row if row.last_at > before.last_at else before


def _new_action_edges(links: Sequence[AlertLink], groups: _Groups) -> Iterator[_Edge]:
    """Yield a link of each alert with the one before it of those whose principals call the same new actions on one day.

    `groups` are what other links joined: one with any alert that does not show the same actions is left alone, whole.
    """
    principal = {each.alert_id: each.value for each in links if each.kind == "principal"}
    shown = {each.alert_id: each for each in links if each.kind == "new_action"}
    alike: dict[str, list[AlertLink]] = defaultdict(list)
    for members in groups.sets() if shown else ():
        own = [shown[alert_id] for alert_id in members if alert_id in shown]
        if len(own) == len(members) and len({each.value for each in own}) == 1:
            alike[own[0].value] += own
    for value, found in alike.items():
        if len({principal[each.alert_id] for each in found}) < MIN_PRINCIPALS:
            continue
        rows = sorted(found, key=lambda each: (each.first_at, each.alert_id))
        for before, row in pairwise(rows):
            at = _KINDS.index("new_action"), max(0, row.first_at - before.last_at), row.first_at
            yield _Edge(*at, row.alert_id, before.alert_id, "new_action", value)


def _reasons(
    edges: Sequence[_Edge],
    pairs: Sequence[tuple[str, str]],
    groups: _Groups,
    order: Mapping[str, tuple[int, str]],
) -> dict[str, tuple[LinkReason, str, str]]:
    """Return the surest link of each alert with one of its incident: an older one if there is any; by hand before all."""
    found: dict[str, tuple[LinkReason, str, str]] = {}
    for pair in pairs:
        older, newer = sorted(pair, key=order.__getitem__)
        found.setdefault(newer, ("hand", "", older))
    inside = [edge for edge in edges if groups.root(edge.earlier) == groups.root(edge.later)]
    for edge in inside:
        found.setdefault(edge.later, (edge.reason, edge.value, edge.earlier))
    for edge in inside:
        found.setdefault(edge.earlier, (edge.reason, edge.value, edge.later))
    for one, other in pairs:
        found.setdefault(one, ("hand", "", other))
        found.setdefault(other, ("hand", "", one))
    return found


class _Groups:
    """Disjoint sets of alerts."""

    def __init__(self, alert_ids: Iterable[str]) -> None:
        self._parent = {alert_id: alert_id for alert_id in alert_ids}
        self._size = dict.fromkeys(self._parent, 1)

    def root(self, alert_id: str) -> str:
        while (parent := self._parent[alert_id]) != alert_id:
            self._parent[alert_id] = alert_id = self._parent[parent]
        return alert_id

    def join(self, one: str, other: str, most: int | None = None) -> None:
        """Join two sets, unless the result would have more than `most` alerts."""
        kept, gone = self.root(one), self.root(other)
        size = self._size[kept] + self._size[gone]
        if kept != gone and (most is None or size <= most):
            self._parent[gone], self._size[kept] = kept, size

    def sets(self) -> list[list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for alert_id in self._parent:
            found[self.root(alert_id)].append(alert_id)
        return list(found.values())
