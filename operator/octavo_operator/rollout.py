"""How many replicas each revision should have now: one step of a rollout, from what is observed. No I/O, no clock.

A new revision surges by one replica. Each of its replicas that is ready lets one of the old ones go, through a drain.
Where the new one finds no place for longer than `patience`, an old one makes room for it, down to none when there is
but one: a rollout completes without a spare accelerator.
"""

from collections.abc import Mapping, Sequence

from octavo_operator.observed import Revision

SURGE = 1
PATIENCE_SECONDS = 30.0


def share_replicas(target: str, desired: int, revisions: Sequence[Revision], now: float) -> Mapping[str, int]:
    """Return the number of serving replicas wanted of each revision, `target` among them.

    `revisions` are the oldest first; `desired` is the number of replicas that the service should have.
    """
    old = [revision for revision in revisions if revision.name != target]
    new = next((revision for revision in revisions if revision.name == target), Revision(target, 0))
    shares = _share_old(old, max(desired - new.num_ready - _num_stuck(new, now), 0))
    shares[target] = _share_new(new, old, desired)
    return shares


def _share_new(new: Revision, old: Sequence[Revision], desired: int) -> int:
    """At most `SURGE` pods beyond `desired`, counting the old ones that still drain: they hold their accelerators."""
    room = desired + SURGE - sum(revision.replicas for revision in old)
    return min(desired, max(new.num_active, room)) if any(r.replicas for r in old) else desired


def _share_old(old: Sequence[Revision], keep: int) -> dict[str, int]:
    """Keep the newest revisions that are ready first, and no replica that never came up."""
    shares = {}
    for revision in sorted(old, key=lambda revision: (revision.num_ready > 0, revision.created_at), reverse=True):
        num_unused = sum(not pod.has_started and not pod.is_draining for pod in revision.pods)
        shares[revision.name] = min(max(revision.num_active - num_unused, 0), keep)
        keep -= shares[revision.name]
    return shares


def _num_stuck(new: Revision, now: float) -> int:
    """Replicas of the new revision that the scheduler has found no place for, for a while."""
    return sum(pod.blocked_since is not None and now - pod.blocked_since >= PATIENCE_SECONDS for pod in new.pods)


def is_complete(target: str, desired: int, revisions: Sequence[Revision]) -> bool:
    """Tell whether only the target revision is left, with as many ready replicas as desired."""
    new = next((revision for revision in revisions if revision.name == target), Revision(target, 0))
    others = sum(revision.replicas + len(revision.pods) for revision in revisions if revision.name != target)
    return others == 0 and new.num_ready >= desired
