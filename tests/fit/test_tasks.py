"""Tasks of a map: all of them once, overdue ones twice, and the first copy counts."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from nmar.fit import tasks as tasks_module
from nmar.fit.tasks import Tasks

distributed = pytest.importorskip("distributed")


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


class Sent(Future):
    """A future that can be let go."""

    released = False

    def release(self):
        self.released = True


class Cluster:
    """Tasks that end when the script says so: {(number, copy): time}; a task that is not in it never ends."""

    def __init__(self, monkeypatch, ends):
        self.clock, self.ends, self.sent = Clock(), ends, {}
        monkeypatch.setattr(tasks_module, "time", self.clock)
        monkeypatch.setattr(distributed, "wait", self.wait)

    def send(self, number, copy):
        self.sent[number, copy] = future = Sent()
        return future

    def wait(self, futures, timeout, return_when):
        assert return_when == "FIRST_COMPLETED" and timeout > 0.0
        due = {key: self.ends[key] for key in self.sent if self.sent[key] in futures and key in self.ends}
        if not due or min(due.values()) > self.clock.now + timeout:
            self.clock.now += timeout
            raise TimeoutError
        self.clock.now = max(self.clock.now, min(due.values()))
        done = {self.sent[key] for key, end in due.items() if end <= self.clock.now}
        return type("Done", (), {"done": done})


def run(cluster, parts, threads=2, patience=5.0, seconds=1.0, most=50):
    """Numbers of the tasks in the order in which they count; None where nothing came for too long."""
    tasks, order = Tasks(cluster.send, parts, threads, patience), []
    tasks.begin()
    for done in tasks.finished():
        if not done:
            order.append(None)
        for future in done:
            number = tasks.settle(future, seconds)
            if number is not None:
                order.append(number)
        if len(order) >= most:
            return order, tasks
    return order, tasks


def test_every_task_counts_once(monkeypatch):
    cluster = Cluster(monkeypatch, {(0, 0): 101.0, (1, 0): 101.0, (2, 0): 102.0})
    order, tasks = run(cluster, [1, 1, 1])
    assert sorted(order) == [0, 1, 2] and not tasks.waiting
    assert sorted(cluster.sent) == [(0, 0), (1, 0), (2, 0)]


def test_an_overdue_task_is_sent_once_more_where_threads_are_idle(monkeypatch):
    cluster = Cluster(monkeypatch, {(0, 0): 101.0, (1, 1): 103.5, (1, 0): 110.0})
    order, _ = run(cluster, [1, 1])
    assert order == [0, 1] and sorted(cluster.sent) == [(0, 0), (1, 0), (1, 1)]
    assert cluster.clock.now == 103.5  # sent at 103: two times the second that a part took, after the last result
    assert cluster.sent[1, 0].released


def test_the_first_copy_counts_even_if_it_is_the_old_one(monkeypatch):
    cluster = Cluster(monkeypatch, {(0, 0): 101.0, (1, 0): 103.2})
    order, _ = run(cluster, [1, 1])
    assert order == [0, 1] and cluster.sent[1, 1].released


def test_a_task_of_many_parts_has_more_time(monkeypatch):
    cluster = Cluster(monkeypatch, {(1, 0): 101.0, (0, 0): 110.5})
    order, _ = run(cluster, [5, 1], patience=50.0)
    assert order == [1, 0] and (0, 1) not in cluster.sent  # ten seconds after the last result


def test_nothing_is_sent_twice_while_all_threads_are_busy(monkeypatch):
    cluster = Cluster(monkeypatch, {(0, 0): 101.0, (1, 0): 120.0, (2, 0): 120.0})
    order, _ = run(cluster, [1, 1, 1], patience=50.0)
    assert order[0] == 0 and sorted(cluster.sent) == [(0, 0), (1, 0), (2, 0)]


def test_silence_is_told_again_and_again(monkeypatch):
    cluster = Cluster(monkeypatch, {})
    order, tasks = run(cluster, [1], patience=5.0, most=3)
    assert order == [None] * 3 and len(tasks.waiting) == 1
    assert cluster.clock.now == pytest.approx(115.0)
