"""From objects as the API server has them to what the planners read."""

from typing import Any

import pytest

from octavo_operator import labels
from octavo_operator.cache import Cache
from octavo_operator.kinds import DEPLOYMENT, INFERENCE_SERVICE, POD, SERVICE, Kind, Object
from octavo_operator.observe import observe, read_pod

CREATED = "2027-01-01T00:00:00Z"


def body(kind: Kind, name: str, version: int = 1, namespace: str = "team", **fields: Any) -> Object:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        "labels": {labels.SERVICE: "chat", labels.REVISION: "new", labels.SERVING: "true"},
        "managedFields": ["much"],
    } | fields.pop("metadata", {})
    return {"kind": kind.kind, "metadata": metadata, **fields}


def pod(name: str = "pod", waiting: Object | None = None, metadata: Object | None = None, **status: Any) -> Object:
    state = {"waiting": waiting} if waiting else {"running": {}}
    container = {"name": "engine", "started": not waiting, "state": state, "restartCount": 0}
    defaults = {
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "False" if waiting else "True"}],
        "containerStatuses": [container | status.pop("container", {})],
    }
    return body(POD, name, metadata=metadata or {}, status=defaults | status)


def test_a_pod_that_serves_is_ready() -> None:
    read = read_pod(pod())
    assert (read.phase, read.ip, read.revision, read.has_started) == ("Ready", "10.0.0.1", "new", True)


def test_a_pod_without_a_status_is_starting() -> None:
    assert read_pod(body(POD, "pod")).phase == "Starting"


def test_a_pod_out_of_the_service_is_draining_since_its_annotation_says() -> None:
    metadata = {"annotations": {labels.DRAINING_SINCE: "2027-01-01T00:00:10+00:00"}, "labels": {labels.SERVICE: "chat"}}
    read = read_pod(pod(metadata=metadata))
    assert (read.phase, read.is_serving) == ("Draining", False)
    assert read.draining_since is not None
    assert read.draining_since - read.created_at == 10


def test_a_pod_that_fits_nowhere_says_why() -> None:
    blocked = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no GPU",
        "lastTransitionTime": CREATED,
    }
    read = read_pod(pod(waiting={"reason": "x"}, conditions=[blocked]))
    assert (read.phase, read.message) == ("Unschedulable", "no GPU")


@pytest.mark.parametrize(
    ("waiting", "ended", "reason", "words"),
    [
        ({"reason": "CrashLoopBackOff"}, {"exitCode": 1, "message": "no model\n"}, "CrashLoop", "code 1: no model"),
        ({"reason": "CrashLoopBackOff"}, {"reason": "OOMKilled", "exitCode": 137}, "OutOfMemory", "memory limit"),
        ({"reason": "ImagePullBackOff", "message": "not found"}, {}, "ImageUnavailable", "not found"),
        ({"reason": "CreateContainerConfigError", "message": "no key"}, {}, "MissingSecret", "no key"),
    ],
)
def test_a_pod_that_does_not_come_up_says_why(waiting: Object, ended: Object, reason: str, words: str) -> None:
    failure = read_pod(pod(waiting=waiting, container={"lastState": {"terminated": ended}})).failure
    assert failure is not None
    assert failure.reason == reason
    assert words in failure.message


def test_a_pod_between_two_crashes_is_still_crash_looping() -> None:
    again = {"restartCount": 3, "started": False, "lastState": {"terminated": {"exitCode": 1, "message": "no model"}}}
    read = read_pod(pod(container=again, conditions=[{"type": "Ready", "status": "False"}]))
    assert read.phase == "CrashLooping"


def test_a_pod_that_recovered_from_crashes_is_ready() -> None:
    read = read_pod(pod(container={"restartCount": 3, "lastState": {"terminated": {"exitCode": 1}}}))
    assert read.phase == "Ready"


def deployment(version: int = 1, **fields: Any) -> Object:
    return body(DEPLOYMENT, "chat-new", version, spec={"replicas": 2}, **fields)


def test_revisions_have_their_pods_and_not_those_that_are_going() -> None:
    cache = Cache()
    cache.put(DEPLOYMENT, deployment())
    cache.put(POD, pod("a"))
    cache.put(POD, pod("going", metadata={"deletionTimestamp": CREATED}))
    cache.put(POD, pod("failed", phase="Failed"))
    observed = observe(cache, "team/chat")
    (revision,) = observed.revisions
    assert (revision.name, revision.replicas, [p.name for p in revision.pods]) == ("new", 2, ["a"])
    assert observed.num_terminating == 1


@pytest.mark.parametrize(
    ("generation", "status", "num_created"),
    [
        (2, {"observedGeneration": 2, "replicas": 1}, 1),
        (2, {"observedGeneration": 1, "replicas": 0}, 2),
        (1, {}, 2),
    ],
)
def test_a_deployment_that_was_not_looked_at_is_taken_to_have_its_pods(
    generation: int, status: Object, num_created: int
) -> None:
    cache = Cache()
    cache.put(DEPLOYMENT, deployment(status=status, metadata={"generation": generation}))
    assert observe(cache, "team/chat").revisions[0].num_created == num_created


def test_a_deployment_that_may_make_no_pods_says_why() -> None:
    cache = Cache()
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    cache.put(DEPLOYMENT, deployment(status={"conditions": [failure]}))
    assert observe(cache, "team/chat").revisions[0].failure == "exceeded quota"


def test_an_older_version_never_replaces_a_newer_one() -> None:
    cache = Cache()
    assert cache.put(DEPLOYMENT, deployment(5)) == "team/chat"
    assert cache.put(DEPLOYMENT, deployment(4)) is None
    cache.remove(DEPLOYMENT, deployment(4))
    assert cache.get(DEPLOYMENT, "team/chat", "chat-new") is not None
    assert cache.remove(DEPLOYMENT, deployment(6)) == "team/chat"
    assert cache.get(DEPLOYMENT, "team/chat", "chat-new") is None


def test_what_is_not_ours_is_not_kept() -> None:
    cache = Cache()
    assert cache.put(POD, body(POD, "other", metadata={"labels": {}})) is None
    assert list(cache.all(POD)) == []


def test_a_listing_finds_what_was_deleted_unseen() -> None:
    cache = Cache()
    cache.put(SERVICE, body(SERVICE, "chat", 3))
    cache.put(SERVICE, body(SERVICE, "elsewhere", 3, namespace="other"))
    cache.put(SERVICE, body(SERVICE, "just-created", 9))
    assert cache.replace(SERVICE, "team", [], listed_at=5) == {"team/chat"}
    assert {each["metadata"]["name"] for each in cache.all(SERVICE)} == {"elsewhere", "just-created"}


def test_a_listing_without_news_wakes_nobody() -> None:
    cache = Cache()
    cache.put(SERVICE, body(SERVICE, "chat", 3))
    assert cache.replace(SERVICE, None, [body(SERVICE, "chat", 3)], listed_at=5) == set()


def test_services_are_found_by_their_own_name() -> None:
    cache = Cache()
    cache.put(INFERENCE_SERVICE, body(INFERENCE_SERVICE, "chat", metadata={"labels": {}}))
    assert cache.service_keys() == ["team/chat"]
    assert cache.service("team/chat") is not None
