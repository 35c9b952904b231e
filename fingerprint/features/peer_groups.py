"""Peer groups: people by their role or identity provider, machines by the pattern of their role's name.

Example:
    >>> peer_group("123456789012:role/deploy-eu-7", "role", "123456789012:role/deploy-eu-7")
    'machines deploy-eu-#'

The group follows from the names of a principal alone, so a principal that was never seen has one too. In training, people whose
role has few members, and IAM users, are grouped by the services they use (`cluster_by_services`).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.frames import Frame

# Parts that CloudFormation and CDK add to names, hash of a logical id and random suffix: `ServiceRoleFCDC14AE-1QTE2NSTB5B8H`
_GENERATED = re.compile(
    r"(?<=[a-z])[0-9A-F]{8}(?=-|$)"
    r"|(?<=-)(?=[0-9A-Za-z]{12,13}$)(?=[0-9a-z]*[A-Z])(?=[A-Za-z]*\d+[A-Za-z])[0-9A-Za-z]+"
)
_NUMBERS = re.compile(r"[0-9a-f]{8,}|\d+", re.IGNORECASE)
MIN_MEMBERS = 3  # a smaller group of people is grouped by services instead
MEMBERS_PER_CLUSTER = 8
_MACHINE_MARKS = frozenset(":/")  # characters in federated subjects of machines, such as `repo:owner/name`


def peer_group(principal: str, kind: str, role: str | None) -> str:
    """Return the name of one principal's peer group, by its key, its kind and the role it holds."""
    if kind == "person" and role:
        return f"people {_pattern(role)}"
    if kind == "role":
        return f"machines {_pattern(principal)}"
    if kind == "federated":
        return _federated_group(principal)
    if kind == "service":
        return f"service {_pattern(principal)}"
    return kind


def _federated_group(principal: str) -> str:
    """Return the group of a federated subject: of a machine its owner at the provider, or all people of the provider.

    Subjects of machines have the form `repo:owner/name`. Other repositories of the owner are peers, while a stranger's repository
    has no peers among ours. A subject without an owner, `system:serviceaccount:space:name`, is a group by itself, which it shares
    with the same subject in other clusters.
    """
    provider, _, subject = (unquote(part) for part in _name(principal).partition("/"))
    provider = provider.rpartition("-provider/")[2]
    if not _MACHINE_MARKS.intersection(subject):
        return f"people of {provider}"
    return f"machines {_fold(provider)} {_fold(subject.partition('/')[0])}"


def assign_peer_groups(principals: Frame) -> NDArray[np.object_]:
    """Return the peer groups (N,) of a table of principals with columns principal, kind, role, on the host."""
    table = frames.to_column_table(frames.select_columns(principals, ["principal", "kind", "role"]))
    rows = zip(*(table.array(name).tolist() for name in table), strict=True)
    return np.array([peer_group(*row) for row in rows], object)


def _pattern(key: str) -> str:
    """Return the name without account, kind, numbers and generated parts, so that deployments of one thing have the same."""
    return _fold(_name(key))


def _name(key: str) -> str:
    """Return a principal's key without its account and its kind."""
    name = key.split(":", 1)[-1]
    for kind in ("role/", "service/", "federated/"):
        name = name.removeprefix(kind)
    return name


def _fold(name: str) -> str:
    return _NUMBERS.sub("#", _GENERATED.sub("#", name))


def cluster_by_services(principals: pd.DataFrame, usage: pd.DataFrame, seed: int) -> pd.Series:
    """Return peer groups for training, aligned with `principals`: people without enough peers are clustered by their services.

    `principals` has columns principal, kind, role and peer; `usage` has principal, service and events. Clusters are made by
    k-means on the unit sphere (of log counts), about MEMBERS_PER_CLUSTER members each.
    """
    groups = principals["peer"].copy()
    size = groups.map(groups.value_counts())
    lonely = principals["kind"].isin(["person", "user"]) & (
        (principals["kind"] == "user") | (size < MIN_MEMBERS)
    )
    if lonely.sum() < 2 * MIN_MEMBERS:
        return groups
    from sklearn.cluster import KMeans  # takes most of a second to import
    from sklearn.preprocessing import normalize

    names = principals.loc[lonely, "principal"]
    spread = usage[usage["principal"].isin(names)].pivot_table(
        index="principal", columns="service", values="events", aggfunc="sum", fill_value=0
    )
    points = normalize(np.log1p(spread.reindex(names, fill_value=0).to_numpy(dtype=float)))
    distinct = len(np.unique(points.round(6), axis=0))  # 1 where all use the same services
    count = min(distinct, max(2, len(points) // MEMBERS_PER_CLUSTER))
    clusters = KMeans(n_clusters=count, n_init=3, random_state=seed).fit_predict(points)
    groups[lonely] = np.array([f"people alike {cluster}" for cluster in clusters], object)
    return groups
