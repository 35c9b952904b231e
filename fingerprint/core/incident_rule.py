"""The rule of incidents: group alerts of one attack by shared values and by people's corrections.

Example:
    >>> links = [AlertLink("a1", "principal", "maria", 0, 600), AlertLink("a2", "principal", "maria", 4_000, 4_600)]
    >>> group_alerts(links)["a2"]
    Membership(incident_id='a1', reason='principal', value='maria', with_alert='a1')

Linked alerts are one incident. Two alerts with at most GAP_SECONDS between the end of one and the beginning of the other are
linked if they share

- a principal, or a person (in several roles or accounts);
- an access key, or a credential chain: one used a key that issued the other's, both have a common issuer, or one is the sign-in
  that began the other's session;
- a source address.

They are also linked if they have two records of one call: the caller's, and that of the account it was made on. These rules
keep an incident from growing too large, or add links:

- An address links only alerts whose principals had never or hardly used its network before, and only if at most MANY_PRINCIPALS
  used that network in the history. The address of an office, a VPN or a NAT gateway is usual for those behind it, even if a
  colleague uses it for the first time. Names of cloud services and private addresses do not count as addresses.
- A key, address or call that more than MAX_PRINCIPALS principals showed within RECENT_SECONDS links none of these alerts.
  Principals with one name in several accounts (a role that is rolled out, or root) are linked by such an address all the same.
- An alert whose calls created a user or role, or gave access to one, is linked with the alerts of that principal of the next day.
  Only calls that AWS carried out count, and at most MAX_OPENED principals an alert.
- Principals with one name in several accounts, not persons, are linked if one service made all calls for them (a rollout of
  stacks) with at most an hour between them, or if the same action, one that does not serve attackers, is new to both.
- MIN_PRINCIPALS or more principals that call the same new action, or the same few, on one day (UTC) are linked. Conditions: one
  of the actions surprises most, their impact is at most minor, and nothing else is grave or, such as a network or tool, new to
  the organisation. So a certificate that every machine fetches is one incident, and so is a scanner's upgrade. An alert is
  exempt if another link joins it with an alert without these actions: an attack of several steps is not joined.
- Links are taken in order, the surest kind and the shortest gap first. A link is skipped if it would make an incident larger than
  MAX_ALERTS.

An incident has the id of its oldest alert, so an older alert that joins changes the id. The id of any of its alerts finds an
incident. The result depends on the alerts and on people's edits, not on the order in which alerts were saved.

Edits take precedence over the rule: an alert that was split off is linked by hand alone from then on, and alerts that were joined
stay together. Edits are replayed in their order, so one can be undone without losing the others.
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

GAP_SECONDS = 6 * 3600  # largest gap between two linked alerts
GAPS: Mapping[LinkKind, int] = {  # kinds with another largest gap, in seconds
    "shared_call": 3600,  # short, because the two records of a call have the same time
    "service": 3600,
    "opened": DAY_SECONDS,
}
# Principals of a key or an address are counted for so long before and after an alert.
RECENT_SECONDS = 7 * DAY_SECONDS
# Most principals of a key, address or call that links. A call is recorded for its caller and in the account of its resource.
MAX_PRINCIPALS: Mapping[LinkKind, int] = {"access_key": 20, "address": 5, "shared_call": 5}
MIN_PRINCIPALS = 5  # that call the same new actions on one day
MAX_NEW_ACTIONS = 6  # of an alert: with three transitions they fit into the ten stored drivers
MAX_ALERTS = 200  # of one incident
MAX_VALUES = 50  # keys, addresses, and shared calls, of one alert
MAX_OPENED = 10  # users and roles that one alert created or gave access to
NEW_RARITIES = ("unseen", "rare")  # of a network whose addresses link alerts
_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_INSIDE = tuple(  # private networks: many hosts have the same address
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
    """A value by which an alert may be linked, and the times of the alert's first and last event in seconds since 1970.

    The value of an `opened` link is the `principal` value of the user or role that the alert created or gave access to.
    `inherited`: the alert did not use the key. The key issued one of the alert's keys, or an alert's call issued it: to a caller
    without a key, or to a user.
    """

    alert_id: str
    kind: LinkKind
    value: str
    first_at: int
    last_at: int
    inherited: bool = False


class Membership(NamedTuple):
    """The incident of an alert, and its link there: the reason, shared value and other alert. The first alert has no link."""

    incident_id: str
    reason: LinkReason = "first"
    value: str = ""
    with_alert: str = ""


def new_addresses(addresses: Iterable[str], drivers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the addresses of an alert in networks that were new to its principal, according to the alert's drivers.

    Example:
        >>> new_addresses(["203.0.113.7", "lambda.amazonaws.com"], [{"seen": "203.0.113.0/24", "rarity": "unseen"}])
        ['203.0.113.7']
    """
    networks = [network for network, _ in _new_networks(drivers)]
    found = {address for address in addresses if _is_in(address, networks)} if networks else set()
    return sorted(found)[:MAX_VALUES]


def linking_addresses(addresses: Iterable[str], drivers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the new addresses of an alert whose network is not usual for others; the narrowest network in the drivers counts.

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
    """Return the networks that are new according to the drivers, with the number of principals of each in the history."""
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
    """Return the value that links principals of one name in several accounts: the name without its account, and the address.

    Example:
        >>> name_at_address("123456789012:role/Audit", "203.0.113.7")
        'role/Audit 203.0.113.7'
    """
    return f"{principal.partition(':')[2]} {address}"


def new_actions(drivers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the actions that were new to an alert's principal according to its drivers, sorted.

    Example:
        >>> new_actions([{"feature": "action", "seen": "s3:ListAccessGrants", "rarity": "unseen"}])
        ['s3:ListAccessGrants']
    """
    return sorted({str(each["seen"]) for each in drivers if _is_new_action(each)})


def names_with_actions(principal: str, actions: Iterable[str]) -> list[str]:
    """Return the values that link principals of one name in several accounts by new actions: the name with each action.

    So the upgrade of a scanner in fourteen accounts is one incident, wherever it calls from and however much it reads.

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
    """Return the new actions of an alert, sorted, if one surprises most and nothing else is grave or new to the organisation.

    `drivers` and `actions` (`Alert.impact_of`) are the alert's. The result is empty if anything else surprises more, if a new
    action has a notable impact or any action a graver one, or for more than MAX_NEW_ACTIONS, because not all drivers are stored.

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
    """Return whether a driver's value is new to its principal, and at most MANY_PRINCIPALS showed it in the history."""
    return driver["rarity"] in NEW_RARITIES and driver.get("principals", 0) <= MANY_PRINCIPALS


def forwarding_service(calls: Iterable[tuple[str, str]]) -> str:
    """Return the service that made all calls (entity, source) of an alert for its principal; empty if there is none.

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
    """A link of two alerts. Edges sort by the surest kind, then by the shortest gap."""

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
    """Return the membership of each alert, given all links of the alerts that are not too common.

    Every alert must have a link by its principal, from which its time is taken.
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
    """Return the alerts that the rule no longer links, and the pairs that are joined by hand. Undone edits are ignored."""
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
    """Yield a link from each alert that created or opened a principal to that principal's alerts that do not end before it."""
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
    """Yield a link of each alert with the earlier alert of the same value that ends last, if the gap is not too large."""
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
    """Yield a link of each alert with the one before it, among alerts with the same new actions on one day.

    `groups` are joined by the other links; a group with any alert that lacks these actions is left out as a whole.
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
    """Return the surest link of each alert inside its incident, preferably to an older alert; links by hand come first."""
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
