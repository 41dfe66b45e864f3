"""How replicas move from one revision to the next."""

import pytest

from octavo_operator.drain import plan_drain
from octavo_operator.observed import Pod, Revision
from octavo_operator.rollout import PATIENCE_SECONDS, is_complete, share_replicas
from tests.operator.builders import NOW, crashing, draining, pod, revision, starting, unschedulable


def share(desired: int, *revisions: Revision) -> dict[str, int]:
    return dict(share_replicas("new", desired, revisions, NOW))


def old(*pods: Pod, replicas: int | None = None) -> Revision:
    return revision("old", *pods, replicas=replicas, age=5000.0)


def old_pods(count: int) -> list[Pod]:
    return [pod(f"old-{index}", "old") for index in range(count)]


def test_the_first_revision_gets_all_replicas_at_once() -> None:
    assert share(3) == {"new": 3}


def test_scaling_without_a_rollout_is_immediate() -> None:
    assert share(5, revision("new", pod("a"))) == {"new": 5}


def test_a_rollout_begins_with_one_replica_more() -> None:
    assert share(3, old(*old_pods(3))) == {"old": 3, "new": 1}


def test_an_old_replica_stays_until_a_new_one_is_ready() -> None:
    assert share(1, old(*old_pods(1)), revision("new", starting("a"))) == {"old": 1, "new": 1}


def test_a_ready_replica_lets_an_old_one_go() -> None:
    assert share(3, old(*old_pods(3)), revision("new", pod("a"))) == {"old": 2, "new": 1}


def test_a_draining_old_replica_counts_until_it_is_gone() -> None:
    """It holds its accelerator."""
    pods = [*old_pods(2), draining("old-2", revision="old")]
    assert share(3, old(*pods), revision("new", pod("a"))) == {"old": 2, "new": 1}
    assert share(3, old(*old_pods(2)), revision("new", pod("a"))) == {"old": 2, "new": 2}


def test_an_idle_old_revision_holds_nothing_back() -> None:
    assert share(3, old(), revision("new", pod("a"))) == {"old": 0, "new": 3}


def test_a_broken_new_revision_takes_no_old_replica_away() -> None:
    assert share(3, old(*old_pods(3)), revision("new", crashing("a"))) == {"old": 3, "new": 1}


def test_a_new_replica_waits_a_while_for_a_free_accelerator() -> None:
    waiting = unschedulable("a", since=PATIENCE_SECONDS - 1)
    assert share(2, old(*old_pods(2)), revision("new", waiting)) == {"old": 2, "new": 1}


@pytest.mark.parametrize("desired", [1, 2])
def test_an_old_replica_makes_room_when_no_accelerator_is_spare(desired: int) -> None:
    waiting = unschedulable("a", since=PATIENCE_SECONDS)
    assert share(desired, old(*old_pods(desired)), revision("new", waiting)) == {"old": desired - 1, "new": 1}


def test_an_old_revision_that_never_came_up_goes_first() -> None:
    first, broken = old(*old_pods(2)), revision("broken", crashing("b", "broken"), age=500.0)
    assert share(2, first, broken, revision("new", pod("a"), age=1.0)) == {"old": 1, "broken": 0, "new": 1}


def test_old_replicas_that_never_came_up_are_not_kept() -> None:
    never = [starting("old-0", "old"), unschedulable("old-1", revision="old"), crashing("old-2", "old")]
    assert share(3, old(*never)) == {"old": 0, "new": 1}


def test_an_old_replica_that_is_unready_for_a_while_is_kept() -> None:
    assert share(1, old(pod("old-0", "old", is_ready=False))) == {"old": 1, "new": 1}


def test_going_back_to_a_revision_that_still_serves_uses_its_replicas() -> None:
    """`new` is the revision that served before, and is wanted again."""
    assert share(3, revision("new", pod("a"), pod("b")), revision("half", pod("c", "half"), age=1.0)) == {
        "half": 1,
        "new": 3,
    }


def test_suspending_takes_every_replica() -> None:
    assert share(0, old(*old_pods(1)), revision("new", pod("a"))) == {"old": 0, "new": 0}


def test_scaling_down_during_a_rollout_shrinks_the_old_revision() -> None:
    assert share(2, old(*old_pods(5))) == {"old": 2, "new": 0}


@pytest.mark.parametrize(
    ("revisions", "complete"),
    [
        ([revision("new", pod("a"))], True),
        ([revision("new", starting("a"))], False),
        ([revision("new", pod("a")), old(*old_pods(1))], False),
        ([revision("new", pod("a")), old(replicas=0)], True),
        ([], False),
    ],
)
def test_a_rollout_is_complete_when_the_new_revision_serves_alone(revisions: list[Revision], complete: bool) -> None:
    assert is_complete("new", 1, revisions) is complete


class Cluster:
    """A cluster of so many accelerators, in which pods start and drain at once. One step is one reconcile."""

    def __init__(self, num_accelerators: int, num_old: int) -> None:
        self.num_accelerators = num_accelerators
        self.pods: dict[str, list[Pod]] = {"old": old_pods(num_old), "new": []}
        self.replicas = {"old": num_old, "new": 0}
        self.most_pods = num_old
        self.least_ready = num_old

    def step(self, desired: int) -> None:
        shares = share(desired, *self.observe())
        for name, wanted in shares.items():
            of = next((r for r in self.observe() if r.name == name), Revision(name, 0))
            plan = plan_drain(of, wanted, {p.name: 0 for p in of.pods if p.is_draining}, 60, NOW)
            num_gone = max(self.replicas[name] - plan.replicas, 0)
            drained = [p for p in self.pods[name] if p.drained_at is not None][:num_gone]
            kept = [p for p in self.pods[name] if p not in drained]
            self.pods[name] = [self.leave(p, name) if p in plan.start + plan.release else p for p in kept]
            self.replicas[name] = plan.replicas
        self.start_pods()

    def leave(self, of: Pod, revision: str) -> Pod:
        """A pod that starts to drain, or is done with it."""
        drained_at = NOW - 5 if of.is_draining else None
        return draining(of.name, revision=revision, drained_at=drained_at, is_ready=not of.is_draining)

    def start_pods(self) -> None:
        for name, pods in self.pods.items():
            pods.extend(unschedulable(f"{name}-new-{i}", 999, name) for i in range(self.replicas[name] - len(pods)))
        for name, pods in self.pods.items():
            for index, each in enumerate(pods):
                if each.phase == "Unschedulable" and self.num_placed < self.num_accelerators:
                    pods[index] = pod(each.name, name)
        self.most_pods = max(self.most_pods, self.num_placed)
        self.least_ready = min(self.least_ready, sum(p.phase == "Ready" for ps in self.pods.values() for p in ps))

    @property
    def num_placed(self) -> int:
        return sum(p.phase != "Unschedulable" for pods in self.pods.values() for p in pods)

    def observe(self) -> list[Revision]:
        return [
            revision("old", *self.pods["old"], replicas=self.replicas["old"], age=5000.0),
            *([revision("new", *self.pods["new"], replicas=self.replicas["new"])] if self.replicas["new"] else []),
        ]


@pytest.mark.parametrize("desired", [1, 2, 5])
@pytest.mark.parametrize("spare", [0, 1, 10])
def test_every_rollout_completes_with_or_without_a_spare_accelerator(desired: int, spare: int) -> None:
    cluster = Cluster(num_accelerators=desired + spare, num_old=desired)
    for _ in range(20 * desired):
        cluster.step(desired)
    assert is_complete("new", desired, cluster.observe())
    assert cluster.most_pods <= desired + 1
    assert cluster.least_ready >= (desired if spare else desired - 1)
