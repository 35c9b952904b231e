"""What the *restricted* Pod Security level asks of a pod, and what else we ask of each: the standard's page as a checklist.

Example:
    >>> violations({"containers": [{"name": "web", "securityContext": {}}], "hostNetwork": True})
    ['hostNetwork', 'web may gain rights', 'web may be root', ...]

https://kubernetes.io/docs/concepts/security/pod-security-standards/, as of Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Pod = dict[str, Any]
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def violations(pod: Pod) -> list[str]:
    """Why the level would not admit a pod's spec; nothing if it would."""
    return [*_of_pod(pod), *(each for container in containers(pod) for each in _of_container(container, pod))]


def beyond(pod: Pod) -> list[str]:
    """What we ask on top: no token, no addresses as environment, nothing written to the image, bounded memory."""
    whole = [
        ("a token of Kubernetes", pod.get("automountServiceAccountToken") is not False),
        ("addresses of Services as environment", pod.get("enableServiceLinks") is not False),
    ]
    each = [
        (f"{container['name']} {what}", wrong)
        for container in containers(pod)
        for what, wrong in (
            ("writes to its image", not _guard(container).get("readOnlyRootFilesystem")),
            ("has no bound on memory", "memory" not in container.get("resources", {}).get("limits", {})),
            ("asks for no memory", "memory" not in container.get("resources", {}).get("requests", {})),
        )
    ]
    return [what for what, wrong in (*whole, *each) if wrong]


def containers(pod: Pod) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def _of_pod(pod: Pod) -> Iterator[str]:
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for volume in pod.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES:
            yield f"volume {volume['name']}"


def _of_container(container: dict[str, Any], pod: Pod) -> Iterator[str]:
    own, whole, name = _guard(container), pod.get("securityContext", {}), container["name"]
    if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
        yield f"{name} may gain rights"
    if not own.get("runAsNonRoot", whole.get("runAsNonRoot")) or not own.get(
        "runAsUser", whole.get("runAsUser")
    ):
        yield f"{name} may be root"
    if own.get("capabilities") != {"drop": ["ALL"]}:
        yield f"{name} has capabilities"
    if own.get("seccompProfile", whole.get("seccompProfile")) != {"type": "RuntimeDefault"}:
        yield f"{name} may make any system call"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield f"{name} takes a port of the host"


def _guard(container: dict[str, Any]) -> dict[str, Any]:
    return container.get("securityContext", {})
