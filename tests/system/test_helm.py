"""The chart, rendered by Helm: what it makes, what it refuses, and that nothing in it has more rights than it needs."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fingerprint.core import settings
from fingerprint.web.server import GRACE_SECONDS
from pipelines.cli.app import app
from tests.support.helm_chart import (
    CHART,
    DEFAULTS,
    ELSEWHERE,
    EVERYTHING,
    NAME,
    OPERATOR,
    PRODUCERS,
    ROOT,
    Chart,
    Refused,
    environment,
    labels,
    linted,
    main_container,
    notes,
    pods,
    rendered,
)
from tests.support.monitoring import read
from tests.support.pod_security import beyond, containers, violations
from tests.support.services import helm
from tests.support.services.requirement import needed

KINDS = {"defaults": DEFAULTS, "everything": EVERYTHING, "elsewhere": ELSEWHERE}
OURS = {
    "fingerprint",
    "fingerprint-gpu",
    "fingerprint-train-gpu",
}  # images whose command is `fingerprint`
INGEST, STREAM = f"Deployment/{NAME}-ingest", f"StatefulSet/{NAME}-stream"
TRAIN, TRITON, WEB = f"CronJob/{NAME}-train", f"Deployment/{NAME}-triton", f"Deployment/{NAME}-web"


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    with needed():
        helm.program()


@pytest.fixture(scope="module", params=KINDS)
def chart(request: pytest.FixtureRequest) -> Chart:
    """With all that its values can ask for, with nothing asked, and on other people's services."""
    return rendered((OPERATOR,), **KINDS[request.param])


@pytest.fixture(scope="module")
def plain() -> Chart:
    return rendered()


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_helm_finds_nothing_to_complain_about(values: dict[str, Any]) -> None:
    assert linted(values) == ""


# --- who may do what --------------------------------------------------------------------------------------------------


def test_the_restricted_level_admits_every_pod(chart: Chart) -> None:
    assert {name: found for name, pod in pods(chart).items() if (found := violations(pod))} == {}


def test_what_the_restricted_level_would_refuse_is_found() -> None:
    careless = {"hostPID": True, "containers": [{"name": "web"}], "volumes": [{"name": "v", "hostPath": {}}]}
    assert len(violations(careless)) == 6
    assert len(beyond(careless)) == 5


def test_no_pod_has_a_token_a_writable_image_or_memory_without_bound(chart: Chart) -> None:
    assert {name: found for name, pod in pods(chart).items() if (found := beyond(pod))} == {}


def test_no_secret_stands_in_an_environment_an_argument_or_a_configmap(plain: Chart) -> None:
    made = plain[f"Secret/{NAME}-secrets"]["data"]
    values = [base64.b64decode(each).decode() for each in made.values()]
    values += [value.removeprefix("fingerprint-control=") for value in values]
    others = json.dumps({name: each for name, each in plain.items() if not name.startswith("Secret/")})
    assert sorted(made) == ["database-password", "triton-control"]
    assert [value for value in values if value in others] == []
    assert all(len(value) >= 40 for value in values)


def test_a_secret_of_ones_own_is_mounted_and_none_is_made() -> None:
    chart = rendered(**ELSEWHERE)
    assert not [name for name in chart if name.startswith("Secret/")]
    mounted = [each["secret"]["secretName"] for each in pods(chart)[STREAM]["volumes"] if "secret" in each]
    assert mounted == ["ours"]


def test_each_program_can_read_the_secrets_it_needs_and_no_other(plain: Chart) -> None:
    read = {
        name: sorted(
            item["key"] for volume in pod["volumes"] for item in volume.get("secret", {}).get("items", [])
        )
        for name, pod in pods(plain).items()
    }
    assert {name: keys for name, keys in read.items() if keys} == {
        STREAM: ["database-password"],
        WEB: ["database-password"],
        TRAIN: ["database-password", "triton-control"],
        TRITON: ["triton-control"],
        f"StatefulSet/{NAME}-postgres": ["database-password"],
    }


def test_a_secret_and_a_cloud_role_of_one_program_are_no_other_s() -> None:
    chart = rendered((OPERATOR,), **EVERYTHING)
    mounted = {
        name: [
            each["secret"]["secretName"]
            for each in pod["volumes"]
            if "items" not in each.get("secret", {"items": 0})
        ]
        for name, pod in pods(chart).items()
    }
    assert {name: found for name, found in mounted.items() if found} == {
        INGEST: ["kafka-login"],
        WEB: ["openid"],
    }
    [topics] = pods(chart)[INGEST]["initContainers"]  # asks the same broker, with the same login
    assert [each["name"] for each in topics["volumeMounts"]] == ["tmp", "settings", "secret-0"]
    roles = [
        name
        for name, each in chart.items()
        if each["kind"] == "ServiceAccount" and "annotations" in each["metadata"]
    ]
    assert roles == [f"ServiceAccount/{NAME}-ingest"]


def test_the_test_that_asks_the_brokers_has_the_scorers_login_and_the_other_has_none() -> None:
    login = [{"secret": "kafka-login", "path": "/run/secrets/kafka"}]
    chart = rendered(stream={"secretMounts": login}, web={"secretMounts": [login[0] | {"secret": "openid"}]})
    tests = {name.rpartition("-")[2]: pod for name, pod in pods(chart).items() if name.startswith("Pod/")}
    [topics] = pods(chart)[STREAM]["initContainers"]
    assert tests["topics"]["containers"][0]["volumeMounts"] == topics["volumeMounts"]
    assert [each["name"] for each in topics["volumeMounts"]] == ["tmp", "settings", "secret-0"]
    for pod in tests.values():
        mounted = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
        assert mounted == {each["name"] for each in pod["volumes"]}
    assert "openid" not in str(tests)
    assert "kafka-login" not in str(tests["web"])


def test_each_workload_has_a_service_account_of_its_own(chart: Chart) -> None:
    accounts = {
        name: pod["serviceAccountName"] for name, pod in pods(chart).items() if not name.startswith("Pod/")
    }
    assert len(set(accounts.values())) == len(accounts)
    assert {f"ServiceAccount/{each}" for each in accounts.values()} <= chart.keys()


def test_no_one_reaches_the_web_server_whom_the_values_do_not_name(plain: Chart) -> None:
    def callers(chart: Chart) -> list[Any]:
        policy = chart[f"NetworkPolicy/{NAME}-web"]["spec"]["ingress"]
        return [peer for rule in policy for peer in rule["from"]]

    assert [component(peer) for peer in callers(plain)] == ["test"]
    assert {"namespaceSelector": {"matchLabels": {"name": "ingress"}}} in callers(rendered(**EVERYTHING))


def test_only_training_writes_the_bank_and_only_scorers_write_checkpoints(plain: Chart) -> None:
    written = {
        (name, mount["name"])
        for name, pod in pods(plain).items()
        for mount in pod["containers"][0]["volumeMounts"]
        if mount["name"] in ("models", "checkpoints") and not mount.get("readOnly")
    }
    assert written == {(TRAIN, "models"), (STREAM, "checkpoints")}


def test_who_looks_addresses_up_reads_the_tables_of_a_claim_and_no_one_else(plain: Chart) -> None:
    guide = (ROOT / "docs/how-to/enrich.md").read_text()
    *_, example = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    chart = rendered(**yaml.safe_load(example), demo={"enabled": True})
    mounted = {
        (name, container["name"], mount["mountPath"], mount["readOnly"])
        for name, pod in pods(chart).items()
        for container in containers(pod)
        for mount in container["volumeMounts"]
        if mount["name"] == "address-tables"
    }
    assert mounted == {
        (STREAM, "stream", "/data", True),
        (TRAIN, "train", "/data", True),
        (WEB, "web", "/data", True),
    }
    claim = {"claimName": "address-tables", "readOnly": True}
    volumes = [
        each for pod in pods(chart).values() for each in pod["volumes"] if each["name"] == "address-tables"
    ]
    assert volumes == [{"name": "address-tables", "persistentVolumeClaim": claim}] * 3
    assert "/data/GeoLite2-ASN.mmdb" in chart[f"ConfigMap/{NAME}-settings"]["data"]["settings.toml"]
    assert "address-tables" not in json.dumps(plain)


# --- who speaks to whom -----------------------------------------------------------------------------------------------


def component(selector: dict[str, Any]) -> str:
    return str(selector["podSelector"]["matchLabels"]["app.kubernetes.io/component"])


def spoken(chart: Chart) -> tuple[set[tuple[str, str, int]], set[tuple[str, str, int]]]:
    """(caller, called, port), as callers may and as those who are called let them."""
    may, let = set(), set()
    for policy in (each["spec"] for each in chart.values() if each["kind"] == "NetworkPolicy"):
        own = policy["podSelector"]["matchLabels"].get("app.kubernetes.io/component")
        for rule in policy.get("egress", []):
            inner = [component(peer) for peer in rule.get("to", []) if "podSelector" in peer]
            may |= {(own, each, port["port"]) for each in inner for port in rule["ports"]}
        for rule in policy.get("ingress", []):
            inner = [component(peer) for peer in rule.get("from", []) if "podSelector" in peer]
            let |= {(each, own, port["port"]) for each in inner for port in rule["ports"]}
    return may, let


def test_who_may_call_is_let_in_and_no_one_else(plain: Chart) -> None:
    may, let = spoken(plain)
    assert may == let
    assert may == {
        *((caller, "kafka", 9092) for caller in ("ingest", "stream", "train", "test")),
        *((caller, "postgres", 5432) for caller in ("stream", "train", "web")),
        *((caller, "triton", 8001) for caller in ("stream", "train")),
        ("test", "web", 8080),
    }


def test_every_pod_is_denied_everything_that_no_policy_names(chart: Chart) -> None:
    deny = chart[f"NetworkPolicy/{NAME}-deny"]["spec"]
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in deny
    assert "egress" not in deny
    selected = deny["podSelector"]["matchLabels"].items()
    assert [name for name, own in labels(chart).items() if not selected <= own.items()] == []


def test_metrics_are_read_by_whom_the_values_name_and_by_no_one_otherwise(plain: Chart) -> None:
    open_ = {9464, 8002}

    def readers(chart: Chart) -> list[str]:
        policies = {name: each for name, each in chart.items() if each["kind"] == "NetworkPolicy"}
        rules = [
            (name, rule) for name, each in policies.items() for rule in each["spec"].get("ingress") or []
        ]
        return [name for name, rule in rules if open_ & {port["port"] for port in rule["ports"]}]

    assert readers(plain) == []
    assert len(readers(rendered(**EVERYTHING))) == 4


def test_a_store_that_tells_a_topic_may_reach_the_broker() -> None:
    may, let = spoken(rendered(**EVERYTHING))
    assert may == let
    assert {("web", "kafka", 9092), ("demo", "kafka", 9092)} < may


@pytest.mark.parametrize("program", ["ingest", "train", "web"])
def test_what_one_program_may_reach_outside_no_other_does(program: str) -> None:
    rule = {"to": [{"ipBlock": {"cidr": "10.0.7.0/24"}}], "ports": [{"port": 443}]}
    chart = rendered(networkPolicy={"egress": {program: [rule]}})
    policies = {name: each for name, each in chart.items() if each["kind"] == "NetworkPolicy"}
    reaching = [name for name, each in policies.items() if rule in (each["spec"].get("egress") or [])]
    assert reaching == [f"NetworkPolicy/{NAME}-{program}"]


def test_nothing_of_the_chart_is_reached_at_brokers_of_ones_own() -> None:
    chart = rendered(**ELSEWHERE)
    assert not [
        name for name in chart if name.endswith(("-kafka", "-postgres", "-triton", "-checkpoints", "-models"))
    ]
    reached = json.dumps(chart[f"NetworkPolicy/{NAME}-stream"]["spec"]["egress"])
    assert "10.0.5.0/24" in reached
    assert "10.0.6.7/32" in reached


# --- the programs -----------------------------------------------------------------------------------------------------


def test_every_command_line_is_one_that_the_programs_take(chart: Chart) -> None:
    lines = [
        container["args"]
        for pod in pods(chart).values()
        for container in containers(pod)
        if container["image"].rpartition("/")[2].partition(":")[0] in OURS and "command" not in container
    ]
    assert {line[0] for line in lines} >= {"stream", "serve", "ingest", "retrain"}
    for line in lines:
        check_command_line(line)


def check_command_line(line: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[line[0]]
        line = line[1:]
    command.make_context(command.name, list(line)).close()


def test_every_command_line_that_the_guide_gives_a_job_is_one_that_the_programs_take() -> None:
    guide = (ROOT / "docs/how-to/kubernetes.md").read_text()
    lines = [json.loads(each) for each in re.findall(r"\.args = (\[.*?\])", guide)]
    assert {line[0] for line in lines} >= {"bank", "topics"}
    for line in lines:
        check_command_line(line)


def test_what_the_values_leave_to_brokers_and_settings_is_not_said_to_topics_create(plain: Chart) -> None:
    def said(chart: Chart) -> set[str]:
        [topics] = pods(chart)[INGEST]["initContainers"]
        return {each for each in topics["args"] if each.startswith(("--replicas", "--retention-days"))}

    assert said(plain) == set()
    given = {"replicas": 3, "retentionDays": 60}
    assert said(rendered(topics=given)) == {"--replicas=3", "--retention-days=60"}
    assert said(rendered(topics=dict.fromkeys(given))) == set()


def test_the_programs_find_brokers_database_triton_and_checkpoints_in_their_environment(plain: Chart) -> None:
    container = main_container(plain, TRAIN)
    found = settings.load_settings(None, environment(plain, container))
    assert found.kafka.bootstrap_servers == (f"{NAME}-kafka.default.svc:9092",)
    assert found.database.url.startswith(
        f"postgresql://fingerprint@{NAME}-postgres/fingerprint?password_file=/run/secrets/"
    )
    assert found.triton.url == f"{NAME}-triton:8001"
    assert found.triton.control_key_file == "/run/secrets/fingerprint/triton-control"
    assert found.checkpoints.url == "checkpoints"
    assert (found.health.host, found.web.host) == ("0.0.0.0", "0.0.0.0")  # noqa: S104


def test_settings_of_the_values_are_those_that_the_programs_read(tmp_path: Path) -> None:
    said = {
        "voting": {"quorum": 1},
        "kafka": {"max_request_size": 5_000_000, "tls": True, "ssl_ca_file": '/etc/"ca".pem'},
        "deliver": {"soc": {"url_file": "/run/secrets/soc/url", "min_urgency": 75}},
        "web": {"run_delivery": True},
        "database": {"redacted_fields": ["requestParameters.password", "sourceIPAddress"]},
    }
    file = tmp_path / "settings.toml"
    reached = {"egress": {"web": [{"ports": [{"port": 443}]}]}}
    file.write_text(
        rendered(settings=said, networkPolicy=reached)[f"ConfigMap/{NAME}-settings"]["data"]["settings.toml"]
    )
    found = settings.load_settings(file, {})
    assert (found.voting.quorum, found.kafka.max_request_size, found.kafka.tls) == (1, 5_000_000, True)
    assert found.kafka.ssl_ca_file == '/etc/"ca".pem'
    assert found.deliver["soc"].min_urgency == 75
    assert found.database.redacted_fields == ("requestParameters.password", "sourceIPAddress")


def test_every_container_with_the_wiring_has_the_settings_file_that_it_names(chart: Chart) -> None:
    wired = [(pod, each) for pod in pods(chart).values() for each in containers(pod) if "envFrom" in each]
    assert len(wired) > 5
    for pod, container in wired:
        file = Path(environment(chart, container)["FINGERPRINT_SETTINGS_FILE"])
        mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["volumes"]}
        source = volumes[mounted[str(file.parent)]]["configMap"]["name"]
        assert file.name in chart[f"ConfigMap/{source}"]["data"]


def test_a_command_in_a_pod_finds_the_bank_that_the_programs_use(plain: Chart) -> None:
    used = {
        (environment(plain, each)["FINGERPRINT_BANK_FOLDER"], said.removeprefix("--bank="))
        for pod in pods(plain).values()
        for each in containers(pod)
        for said in each.get("args", [])
        if said.startswith("--bank=")
    }
    assert used == {("models/bank", "models/bank")}


def test_a_changed_setting_makes_new_pods_and_anything_else_does_not(plain: Chart) -> None:
    def mark(chart: Chart, name: str) -> str:
        return str(chart[name]["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    changed, other = rendered(settings={"voting": {"quorum": 1}}), rendered(web={"replicas": 2})
    for name in (INGEST, STREAM, WEB, TRITON):
        assert mark(changed, name) != mark(plain, name)
        assert mark(other, name) == mark(plain, name)


def test_a_scorer_is_a_member_by_the_name_that_outlives_its_pod(plain: Chart) -> None:
    members = {
        name: [
            each
            for each in pod["containers"][0].get("env", [])
            if each["name"] == "FINGERPRINT_KAFKA__GROUP_INSTANCE_ID"
        ]
        for name, pod in pods(plain).items()
    }
    assert members.pop(STREAM) == [
        {
            "name": "FINGERPRINT_KAFKA__GROUP_INSTANCE_ID",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
        }
    ]
    assert not any(members.values())
    assert plain[STREAM]["kind"] == "StatefulSet"


def test_one_training_at_a_time(plain: Chart) -> None:
    spec = plain[TRAIN]["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert main_container(plain, TRAIN)["image"] == "fingerprint:0.1.0"


def test_triton_has_the_keys_of_banks_and_its_http_hears_its_own_container_alone() -> None:
    chart = rendered(
        settings={"bank": {"verify_key_files": ["/run/secrets/bank/a.pub", "/run/secrets/bank/b.pub"]}}
    )
    wiring = chart[f"ConfigMap/{NAME}-wiring"]["data"]
    assert wiring["FINGERPRINT_BANK__VERIFY_KEY_FILES"] == "/run/secrets/bank/a.pub,/run/secrets/bank/b.pub"
    container = main_container(chart, TRITON)
    assert {port["containerPort"] for port in container["ports"]} == {8001, 8002}
    for probe, asked in {"livenessProbe": "live", "readinessProbe": "ready", "startupProbe": "live"}.items():
        assert container[probe]["exec"]["command"] == ["healthy", f"8000/v2/health/{asked}"]


def test_training_reaches_a_triton_that_is_not_ready_because_it_could_not_load_its_model(
    plain: Chart,
) -> None:
    services = {name: each["spec"] for name, each in plain.items() if each["kind"] == "Service"}
    unready = [name for name, spec in services.items() if spec.get("publishNotReadyAddresses")]
    assert unready == [f"Service/{NAME}-triton"]


def test_probes_ask_whether_a_program_lives_and_whether_it_is_ready(plain: Chart) -> None:
    for name in (INGEST, STREAM, WEB):
        container = main_container(plain, name)
        asked = {probe: container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
        assert asked == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
        assert container["startupProbe"]["httpGet"]["path"] == "/livez"


def test_a_web_server_that_leaves_is_out_of_its_service_before_it_refuses_connections(plain: Chart) -> None:
    pod, container = pods(plain)[WEB], main_container(plain, WEB)
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert int(seconds) + GRACE_SECONDS < pod["terminationGracePeriodSeconds"]


def test_replicas_are_spread_over_zones_and_nodes(plain: Chart) -> None:
    """The scheduler's own constraints hold only for pods without any."""
    for name in (INGEST, STREAM, WEB):
        spread = pods(plain)[name]["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == [
            "topology.kubernetes.io/zone",
            "kubernetes.io/hostname",
        ]
        for each in spread:
            assert each["labelSelector"]["matchLabels"].items() <= labels(plain)[name].items()


def test_what_has_to_end_and_share_memory_has_as_much_of_both_in_the_chart_as_in_compose(
    plain: Chart,
) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    grace = {
        name: int(services[name]["stop_grace_period"].removesuffix("s")) for name in ("ingest", "stream")
    }
    assert grace == {
        name.rpartition("-")[2]: pods(plain)[name]["terminationGracePeriodSeconds"]
        for name in (INGEST, STREAM)
    }
    for name in (f"StatefulSet/{NAME}-postgres", TRITON):
        [shm] = [each for each in pods(plain)[name]["volumes"] if each["name"] == "shm"]
        [mount] = [each for each in main_container(plain, name)["volumeMounts"] if each["name"] == "shm"]
        assert mount["mountPath"] == "/dev/shm"  # noqa: S108
        size = services[name.rpartition("-")[2]]["shm_size"]
        assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": size.removesuffix("m") + "Mi"}


def test_a_node_can_be_drained_also_while_no_pod_is_ready(chart: Chart) -> None:
    """Without a broker all are unready: a budget that counted them would hold the node on which the broker is to move."""
    budgets = [each["spec"] for each in chart.values() if each["kind"] == "PodDisruptionBudget"]
    assert len(budgets) >= 3
    assert {(each["maxUnavailable"], each["unhealthyPodEvictionPolicy"]) for each in budgets} == {
        (1, "AlwaysAllow")
    }


def test_a_demo_with_other_arguments_is_another_job_and_otherwise_the_same() -> None:
    def job(**demo: Any) -> list[str]:
        chart = rendered(demo={"enabled": True} | demo, settings={"voting": {"quorum": len(demo) + 1}})
        return [name for name in chart if name.startswith("Job/")]

    assert len(job()) == 1
    assert job() == job(resources={"limits": {"memory": "3Gi"}})
    assert job() != job(args=["--speed", "600"])


# --- GPUs, scale, monitoring ------------------------------------------------------------------------------------------


def test_a_pod_whose_limits_equal_its_requests_can_have_cpus_of_its_own(plain: Chart) -> None:
    """Every container counts for the QoS class Guaranteed, also those that run before the program."""
    equal = {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}}
    chart = rendered(stream={"resources": equal}, triton={"resources": equal})
    for name, first in ((STREAM, "50m"), (TRITON, "10m")):
        assert [each["resources"] for each in containers(pods(chart)[name])] == [equal] * 2
        before = {each["resources"]["requests"]["cpu"] for each in containers(pods(plain)[name])}
        assert first in before


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
def test_triton_scorers_and_training_ask_for_a_gpu_by_the_name_it_has_there(resource: str) -> None:
    one = {"gpu": {"count": 1}}
    chart = rendered(gpu={"resource": resource}, triton=one, stream=one, train={"gpu": {"count": 2}})
    asked = {name: main_container(chart, name)["resources"]["limits"].get(resource) for name in pods(chart)}
    assert {name: count for name, count in asked.items() if count} == {TRITON: 1, STREAM: 1, TRAIN: 2}


def test_who_asks_for_a_gpu_runs_the_image_that_can_use_it(plain: Chart) -> None:
    one = {"gpu": {"count": 1}}
    chart = rendered(triton=one, stream=one, train=one)

    def images(chart: Chart) -> list[str]:
        return [
            main_container(chart, name)["image"].removesuffix(":0.1.0")
            for name in (STREAM, WEB, TRAIN, TRITON)
        ]

    assert images(plain) == ["fingerprint", "fingerprint", "fingerprint", "fingerprint-triton"]
    assert images(chart) == [
        "fingerprint-gpu",
        "fingerprint",
        "fingerprint-train-gpu",
        "fingerprint-triton-gpu",
    ]


def test_a_service_may_ask_for_another_kind_of_gpu_than_the_others() -> None:
    chart = rendered(
        gpu={
            "resource": "nvidia.com/gpu.shared",
            "runtimeClassName": "nvidia",
            "nodeSelector": {"gpu": "yes"},
        },
        triton={"gpu": {"count": 1, "resource": "nvidia.com/mig-2g.20gb"}, "nodeSelector": {"disk": "fast"}},
    )
    pod = pods(chart)[TRITON]
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/mig-2g.20gb": 1}
    assert pod["runtimeClassName"] == "nvidia"
    assert pod["nodeSelector"] == {"gpu": "yes", "disk": "fast"}
    assert "runtimeClassName" not in pods(chart)[STREAM]
    assert "nodeSelector" not in pods(chart)[STREAM]


@pytest.mark.parametrize(
    ("stream", "scaled", "replicas"),
    [
        ({"replicas": 2}, False, 2),
        ({"replicas": 0}, False, 0),
        ({"replicas": 2, "autoscaling": {"enabled": True}}, True, None),
        ({"replicas": None}, False, None),  # for an autoscaler of one's own
    ],
)
def test_either_the_values_or_an_autoscaler_say_how_many_scorers_there_are(
    stream: dict[str, Any], scaled: bool, replicas: int | None
) -> None:
    chart = rendered(stream=stream)
    assert (f"HorizontalPodAutoscaler/{NAME}-stream" in chart) is scaled
    assert chart[STREAM]["spec"].get("replicas") == replicas


def test_scorers_are_scaled_by_the_cpu_that_their_request_gives_them_on_a_full_node(plain: Chart) -> None:
    chart = rendered(stream={"autoscaling": {"enabled": True, "maxReplicas": 3}})
    spec = chart[f"HorizontalPodAutoscaler/{NAME}-stream"]["spec"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": STREAM.rpartition("/")[2],
    }
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 3)
    [metric] = spec["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "400m"}}
    requested = main_container(plain, STREAM)["resources"]["requests"]["cpu"]
    assert int(requested.removesuffix("m")) > 400
    waits = {way: each["stabilizationWindowSeconds"] for way, each in spec["behavior"].items()}
    assert waits == {"scaleUp": 120, "scaleDown": 600}


def test_a_client_in_another_namespace_finds_the_broker_by_the_address_that_it_is_given() -> None:
    """Producers of raw messages have namespaces of their own: a Service's bare name is nothing there."""
    chart = rendered(**EVERYTHING)
    address = f"{NAME}-kafka.default.svc:9092"
    broker = main_container(chart, f"StatefulSet/{NAME}-kafka")
    assert {"name": "KAFKA_ADVERTISED_LISTENERS", "value": f"PLAINTEXT://{address}"} in broker["env"]
    (rule,) = chart[f"NetworkPolicy/{NAME}-kafka"]["spec"]["ingress"]
    assert PRODUCERS[0] in rule["from"]


def test_the_operator_gets_our_rules_and_jobs_of_their_names() -> None:
    chart = rendered((OPERATOR,), **EVERYTHING)
    own = chart[f"PrometheusRule/{NAME}-rules"]["spec"]
    assert [without_release(each) for each in own["groups"]] == read("rules.yml")["groups"]
    for job in ("ingest", "stream", "web", "triton"):
        monitor = chart[f"ServiceMonitor/{NAME}-{job}"]["spec"]
        wanted = monitor["selector"]["matchLabels"].items()
        services = [
            each
            for each in chart.values()
            if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
        ]
        ports = [port for each in services for port in each["spec"]["ports"] if port["name"] == "metrics"]
        assert len(ports) == 1
        assert {each["metadata"]["labels"][monitor["jobLabel"]] for each in services} == {job}


def without_release(group: dict[str, Any]) -> dict[str, Any]:
    """A group of the chart's rules as in rules.yml: without what names the release."""
    rules = []
    for rule in group["rules"]:
        own = {name: text for name, text in rule["labels"].items() if name not in ("namespace", "release")}
        expression = re.sub(r'namespace="\w+",(release="\w+"|pod=~"[^"]*"),?', "", rule["expr"]).replace(
            "{}", ""
        )
        rules.append(rule | {"expr": expression, "labels": own})
    return group | {"rules": [{name: each for name, each in rule.items() if each} for rule in rules]}


def test_no_rule_misses_an_ingest_that_the_values_leave_out() -> None:
    def alerts(**values: Any) -> list[str]:
        made = rendered((OPERATOR,), **{**EVERYTHING, **values})[f"PrometheusRule/{NAME}-rules"]
        return [
            rule["alert"] for group in made["spec"]["groups"] for rule in group["rules"] if "alert" in rule
        ]

    every, left = alerts(), alerts(ingest={"enabled": False})
    assert [each for each in every if each not in left] == ["FingerprintIngestDown"]
    assert [each for each in every if each in left] == left


def test_without_the_operator_nothing_is_made_for_it() -> None:
    assert not [
        name for name in rendered(**EVERYTHING) if name.startswith(("ServiceMonitor/", "PrometheusRule/"))
    ]


def test_the_store_behind_an_ingress_knows_where_browsers_find_it() -> None:
    chart = rendered(**EVERYTHING)
    found = settings.load_settings(None, environment(chart, main_container(chart, WEB)))
    assert found.web.public_url == "https://alerts.example.com"
    rule = chart[f"Ingress/{NAME}-web"]["spec"]["rules"][0]
    assert rule["host"] == "alerts.example.com"


def test_images_of_another_registry_and_by_digest() -> None:
    digest = f"sha256:{'a' * 64}"
    chart = rendered(
        image={"registry": "registry.example.com", "serve": {"repository": "web", "digest": digest}}
    )
    assert main_container(chart, WEB)["image"] == f"registry.example.com/web@{digest}"
    assert main_container(chart, TRITON)["image"] == "registry.example.com/fingerprint-triton:0.1.0"
    assert main_container(chart, f"StatefulSet/{NAME}-kafka")["image"] == "apache/kafka:4.1.2"


# --- what an installation prints ----------------------------------------------------------------------------------------


def test_notes_say_that_an_autoscaler_does_nothing_without_a_metrics_server(tmp_path: Path) -> None:
    (off := tmp_path / "off").mkdir()
    (on := tmp_path / "on").mkdir()
    assert "NOT SCALED" not in notes(off)
    assert "NOT SCALED: this cluster has no metrics server" in notes(
        on, stream={"autoscaling": {"enabled": True}}
    )


def test_notes_say_why_pods_stay_pending_where_the_default_class_has_no_shared_volumes(
    tmp_path: Path,
) -> None:
    """Most default storage classes are disks: no pod would start, and `helm install` would not say why."""
    (plain := tmp_path / "plain").mkdir()
    printed = notes(plain)
    assert "PENDING PODS: models and checkpoints ask the default storage class for ReadWriteMany" in printed
    assert "kubectl -n default logs deployment/watch-fingerprint-web | grep /setup/" in printed
    one_node, ours = {"accessModes": ["ReadWriteOnce"]}, {"existingClaim": "ours"}
    for name, own in {
        "class": {"models": {"storageClass": "efs"}, "checkpoints": {"url": "s3://bucket/checkpoints"}},
        "node": {"models": one_node, "checkpoints": one_node},
        "claim": {"models": ours, "checkpoints": ours},
    }.items():
        (folder := tmp_path / name).mkdir()
        assert "PENDING PODS" not in notes(folder, networkPolicy={"enabled": False}, **own)


# --- what is refused --------------------------------------------------------------------------------------------------


QUEUE = "https://sqs.eu-west-1.amazonaws.com/111122223333/trail"
SQS, BUCKET = {"extraArgs": ["--sqs", QUEUE]}, {"sqs": {"allowed_buckets": ["trail"]}}
DELIVERING = {"deliver": {"soc": {"url_file": "/run/secrets/soc/url"}}, "web": {"run_delivery": True}}
HTTPS = [{"ports": [{"port": 443}]}]


@pytest.mark.parametrize(
    ("values", "about"),
    [
        ({"streams": {}}, "streams"),
        ({"stream": {"replica": 2}}, "replica"),
        ({"settings": {"votes": {}}}, "votes"),
        ({"topics": {"partitions": 6}}, "partitions"),
        ({"gpu": {"resource": "gpu"}}, "gpu"),
        ({"stream": {"gpu": {"count": -1}}}, "count"),
        ({"stream": {"autoscaling": {"cpu": "80%"}}}, "cpu"),
        (
            {"stream": {"autoscaling": {"enabled": True, "maxReplicas": 8}}},
            "8 scorers cannot share 4 partitions",
        ),
        ({"postgres": {"uid": 0}}, "uid"),
        ({"postgres": {"enabled": False}, "database": {"url": "mysql://store@db/store"}}, "PostgreSQL"),
        (
            {
                "settings": {
                    "deliver": {"chat": {"kind": "slack", "url": "https://chat.example.com/T0/hunter2"}}
                }
            },
            "settings.deliver.chat.url is a secret, .* settings.deliver.chat.url_file",
        ),
        ({"models": {"size": "20GB"}}, "size"),
        ({"image": {"serve": {"repository": "fingerprint", "tag": "latest"}}}, "image.serve.tag is latest"),
        ({"kafka": {"image": {"tag": "latest"}}}, "kafka.image.tag is latest"),
        ({"fullnameOverride": "Watch"}, '"Watch" cannot be a Service\'s name'),
        ({"web": {"publicUrl": "alerts.example.com"}}, "publicUrl"),
        ({"train": {"schedule": "daily"}}, "schedule"),
        ({"kafka": {"enabled": False}}, "name your own brokers"),
        ({"kafka": {"bootstrapServers": ["broker:9092"]}}, "set it to false"),
        ({"postgres": {"enabled": False}}, "name your own server"),
        ({"stream": {"replicas": 8}}, "8 scorers cannot share 4 partitions"),
        ({"web": {"trustedProxies": 1, "ingress": {"enabled": True}}}, "needs a host"),
        ({"web": {"service": {"type": "LoadBalancer"}}}, "networkPolicy.webFrom"),
        ({"web": {"ingress": {"enabled": True, "host": "alerts.example.com"}}}, "trustedProxies is 0 behind"),
        (
            {"settings": {"web": {"trusted_proxies": 1}}},
            "web.trusted_proxies .* say it in web.trustedProxies",
        ),
        ({"settings": {"health": {"port": 9000}}}, r"settings.health.port .* leave it out"),
        ({"checkpoints": {"url": "s3://bucket/path"}}, "networkPolicy.egress.checkpoints"),
        (ELSEWHERE | {"networkPolicy": {}}, "networkPolicy.egress.kafka"),
        ({"settings": {"deliver": {"soc": {"url_file": "/run/secrets/soc/url"}}}}, "run_delivery"),
        ({"settings": DELIVERING}, "networkPolicy.egress.web: say how the receiver settings.deliver.soc"),
        (
            {"settings": {"web": {"oidc": {"issuer": "https://login.example.com"}}}},
            "networkPolicy.egress.web: .*OpenID",
        ),
        ({"ingest": SQS}, "settings.sqs.allowed_buckets"),
        ({"ingest": SQS, "settings": BUCKET}, "networkPolicy.egress.ingest"),
        ({"ingest": {"extraArgs": [f"--sqs={QUEUE}"]}, "settings": BUCKET}, "networkPolicy.egress.ingest"),
        ({"monitoring": {"serviceMonitor": {"enabled": True}}}, "networkPolicy.metricsFrom"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_could_not_work_are_refused_with_their_name(values: dict[str, Any], about: str) -> None:
    with pytest.raises(Refused, match=about):
        rendered(**values)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://store:hunter2@db/store",
        "postgresql://store:hun/ter2@db/store",
        "postgresql://store@db/store?sslmode=require&password=hunter2",
    ],
)
def test_a_password_in_the_databases_url_is_refused_and_not_printed(url: str) -> None:
    with pytest.raises(Refused, match=r"database.url holds a password, .*password_file=") as refused:
        rendered(postgres={"enabled": False}, database={"url": url})
    assert "ter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://store@db:5432/store?password_file=/run/secrets/fingerprint/database-password",
        "postgres://[2001:db8::7]:5432/store",
    ],
)
def test_a_database_without_a_password_in_its_url_is_taken(url: str) -> None:
    chart = rendered(postgres={"enabled": False}, database={"url": url}, networkPolicy={"enabled": False})
    assert chart[f"ConfigMap/{NAME}-wiring"]["data"]["FINGERPRINT_DATABASE__URL"] == url


def test_a_setting_that_the_environment_goes_before_is_refused() -> None:
    """It would be ignored: of each variable of the wiring, the setting of its name."""
    wiring = rendered(**EVERYTHING)[f"ConfigMap/{NAME}-wiring"]["data"]
    settings_of = [name.removeprefix("FINGERPRINT_").lower().split("__") for name in wiring]
    sections = [each for each in settings_of if len(each) == 2]
    assert len(sections) >= 10
    for section, key in sections:
        value = 1 if key in ("port", "trusted_proxies") else key == "serve_health" or "x"
        with pytest.raises(Refused, match=rf"settings\.{section}\.{key} would not be read"):
            rendered(**EVERYTHING | {"settings": {section: {key: value}}})


def test_the_address_for_browsers_may_be_said_as_a_setting_where_no_value_says_it() -> None:
    chart = rendered(settings={"web": {"public_url": "https://alerts.example.com"}})
    assert "FINGERPRINT_WEB__PUBLIC_URL" not in chart[f"ConfigMap/{NAME}-wiring"]["data"]


@pytest.mark.parametrize("release", ["1234", "a.b"])
def test_a_release_of_a_name_that_no_service_can_have_needs_one_for_its_parts(release: str) -> None:
    with pytest.raises(Refused, match=rf'"{release}-fingerprint" cannot .* fullnameOverride'):
        rendered(release=release)
    assert "Service/alerts-web" in rendered(release=release, fullnameOverride="alerts")


@pytest.mark.parametrize(
    ("said", "about"),
    [
        ({"voting": {"quorum": "many"}}, "'many' does not match pattern"),
        ({"retention": {"record_days": -1}}, "minimum: got -1, want 0"),
        ({"alerts": {"threshold": 40}}, "maximum: got 40, want 37"),
        ({"kafka": {"tls": "yes"}}, "got string, want .*boolean"),
        ({"kafka": {"sasl_mechanism": "SCRAM"}}, "one of .*SCRAM-SHA-512"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_number_or_switch_that_no_program_takes_is_refused_before_a_pod_stops_at_it(
    said: dict[str, Any], about: str
) -> None:
    with pytest.raises(Refused, match=about):
        rendered(settings=said)


def test_a_number_may_be_a_text_and_a_null_says_nothing() -> None:
    """Templates and `--set-string` write numbers as texts, which the programs read; null takes a value back."""
    said = {
        "stream": {"max_series": "5000"},
        "alerts": {"threshold": "3.5", "group_gap_seconds": None},
        "kafka": {"tls": None, "auto_offset_reset": None, "bootstrap_servers": None},
        "web": {"port": None, "title": None},
    }
    written = tomllib.loads(rendered(settings=said)[f"ConfigMap/{NAME}-settings"]["data"]["settings.toml"])
    assert written == {
        "stream": {"max_series": "5000"},
        "alerts": {"threshold": "3.5"},
        "kafka": {},
        "web": {},
    }
    assert settings.Settings.model_validate(written).stream.max_series == 5000


def test_every_default_of_the_programs_is_a_value_of_the_chart() -> None:
    """The schema is generated: a bound that it read wrongly would refuse what the programs take."""
    said = settings.Settings().model_dump(mode="json", exclude_none=True)
    shown = rendered()[f"ConfigMap/{NAME}-wiring"]["data"]
    for name in shown:
        section, _, key = name.removeprefix("FINGERPRINT_").lower().partition("__")
        said.get(section, {}).pop(key, None) if key else None
    assert rendered(settings={name: each for name, each in said.items() if each})


@pytest.mark.parametrize(
    "values",
    [
        {"ingest": SQS, "settings": BUCKET, "networkPolicy": {"egress": {"ingest": HTTPS}}},
        {"ingest": SQS, "settings": BUCKET, "networkPolicy": {"enabled": False}},
        {
            "ingest": SQS | {"extraEnv": [{"name": "FINGERPRINT_SQS__ALLOWED_BUCKETS", "value": "trail"}]},
            "networkPolicy": {"egress": {"ingest": HTTPS}},
        },
        {"ingest": SQS | {"enabled": False}},
        {"settings": DELIVERING, "networkPolicy": {"egress": {"web": HTTPS}}},
        {"settings": DELIVERING | {"deliver": {"topic": {"kind": "kafka", "topic": "alerts"}}}},
        {"monitoring": {"serviceMonitor": {"enabled": True}}, "networkPolicy": {"enabled": False}},
    ],
)
def test_values_that_say_how_all_is_reached_are_rendered(values: dict[str, Any]) -> None:
    assert rendered(**values)


def test_every_example_of_values_in_the_guide_is_rendered_with_settings_that_exist(tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/kubernetes.md").read_text()
    examples = [
        yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    ]
    assert len(examples) >= 3
    for example in examples:
        chart = rendered(**example)
        file = tmp_path / "settings.toml"
        file.write_text(chart[f"ConfigMap/{NAME}-settings"]["data"]["settings.toml"])
        assert settings.load_settings(file, environment(chart, main_container(chart, STREAM)))


def test_no_upgrade_of_the_guide_keeps_the_defaults_of_the_chart_before() -> None:
    """Values that are new in the chart would be missing, and those that are gone refused."""
    pages = "".join(each.read_text() for each in (ROOT / "docs").rglob("*.md"))
    upgrades = re.findall(r"helm upgrade .*", pages)
    assert len(upgrades) >= 4
    assert [each for each in upgrades if "--reset-then-reuse-values" not in each] == []


def test_the_example_of_the_guide_reads_a_queue_with_its_own_role_region_and_way_out() -> None:
    guide = (ROOT / "docs/how-to/kubernetes.md").read_text()
    (example,) = re.findall(
        r"^## Connect S3 through SQS\n.*?^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL
    )
    chart = rendered(**yaml.safe_load(example))
    ingest = main_container(chart, INGEST)
    assert ingest["args"][:2] == ["ingest", "--sqs"]
    assert {"name": "AWS_REGION", "value": "eu-west-1"} in ingest["env"]
    own = chart[f"ServiceAccount/{pods(chart)[INGEST]['serviceAccountName']}"]
    assert "eks.amazonaws.com/role-arn" in own["metadata"]["annotations"]
    assert HTTPS[0] in chart[f"NetworkPolicy/{NAME}-ingest"]["spec"]["egress"]


@pytest.mark.parametrize(
    ("said", "about"),
    [
        ({"votting": {"quorum": 2}}, "votting"),
        ({"voting": {"quorom": 2}}, "quorom"),
        ({"retention": {"raw_days": 30}}, "raw_days"),
        ({"kafka": {"password_file": "/run/secrets/kafka/password"}}, "password_file"),
        ({"web": {"oidc": {"client": "fingerprint"}}}, "client"),
        ({"deliver": {"soc": {"url_fil": "/run/secrets/soc/url"}}, "web": {"run_delivery": True}}, "url_fil"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_misspelt_setting_is_refused_with_its_name(said: dict[str, Any], about: str) -> None:
    with pytest.raises(Refused, match=rf"'{about}' not allowed"):
        rendered(settings=said)


def test_every_setting_of_the_programs_is_one_of_the_chart() -> None:
    known: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]
    names = [each.name for each in settings.describe_settings()]
    assert len(names) > 100
    for name in names:
        place = known
        for part in name.split("."):
            place = place["additionalProperties"] if part == "NAME" else place["properties"][part]


def test_settings_in_the_comments_of_the_values_are_those_that_the_programs_read(tmp_path: Path) -> None:
    examples = settings_examples((CHART / "values.yaml").read_text())
    assert len(examples) >= 2
    for example in examples:
        file = tmp_path / "settings.toml"
        file.write_text(rendered(settings=example)[f"ConfigMap/{NAME}-settings"]["data"]["settings.toml"])
        found = settings.load_settings(file, {}).model_dump()
        for section, keys in example.items():
            assert {key: found[section][key] for key in keys} == keys


def test_settings_that_the_comments_of_the_values_name_exist() -> None:
    comments = " ".join(re.findall(r"# (.*)", (CHART / "values.yaml").read_text()))
    known = {part for each in settings.describe_settings() for part in accumulated(each.name)}
    named = re.findall(r"\bsettings\.([a-z_.]*[a-z_])", comments)
    assert named
    assert [name for name in named if name not in known] == []


def settings_examples(values: str) -> list[dict[str, Any]]:
    """Mappings between braces in comments all of whose values are mappings: no other value of the chart is like this."""
    comments = " ".join(re.findall(r"# (.*)", values))
    found = [yaml.safe_load(each) for each in outermost_braces(comments)]
    return [each for each in found if all(isinstance(value, dict) for value in each.values())]


def outermost_braces(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, each in enumerate(text):
        start = at if each == "{" and not depth else start
        depth += (each == "{") - (each == "}")
        if each == "}" and not depth:
            yield text[start : at + 1]


def accumulated(key: str) -> list[str]:
    """`web`, `web.oidc` and `web.oidc.issuer` of the last."""
    parts = key.split(".")
    return [".".join(parts[: at + 1]) for at in range(len(parts))]


def test_every_value_that_the_schema_knows_has_a_default_and_a_place_in_the_values() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text()) | {"global": {}}

    def unsaid(known: dict[str, Any], said: dict[str, Any], path: str = "") -> list[str]:
        missing = [f"{path}{key}" for key in known["properties"] if key not in said]
        inner = {
            key: each for key, each in known["properties"].items() if "properties" in each and key in said
        }
        return missing + [
            one for key, each in inner.items() for one in unsaid(each, said[key], f"{path}{key}.")
        ]

    del schema["properties"]["settings"]["properties"]  # theirs are in the programs
    assert unsaid(schema, values) == []


def test_the_chart_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (named["version"], named["appVersion"]) == (project, project)
