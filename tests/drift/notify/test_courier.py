"""Notices over real sockets: retried, bounded, deduplicated, and never in anyone's way."""

from __future__ import annotations

import hashlib
import hmac
import random
import threading

import pytest
from prometheus_client import CollectorRegistry

from drift.notify.config import RetryConfig, Webhook
from drift.notify.metrics import RESULTS, NotifyCollector
from drift.notify.notifier import Notifier

NOW = 1_700_001_000.0
QUICK = RetryConfig(attempts=3, base_s=0.0, cap_s=0.0)


@pytest.fixture
def start():
    made = []

    def _start(url, environ=None, **settings):
        settings = {"retry": QUICK, "name": "hook", **settings}
        one = Notifier([Webhook(url=url, **settings)], environ or {}, lambda: NOW, random.Random(1))
        made.append(one)
        return one

    yield _start
    for one in made:
        one.close(0.0)


def _results(notifier):
    notifier.close(60.0)
    (delivery,) = notifier.deliveries()
    return delivery.results


def test_it_is_delivered_once_however_often_it_is_told(start, receiver, entry):
    notifier = start(receiver.url)
    for _ in range(3):
        notifier.tell(entry("ok", "degraded"))
    notifier.tell(entry("degraded", "warn", 1_700_000_100.0))
    assert _results(notifier) == {"delivered": 2, "duplicate": 2}
    assert [receiver.next().json["state"] for _ in range(2)] == ["degraded", "warn"]
    assert receiver.requests.empty()


def test_secrets_come_from_the_environment_and_stay_out_of_logs(start, receiver, entry, caplog):
    caplog.set_level("DEBUG")
    receiver.answers = [(403, {})]
    environ = {"HOOK": receiver.url, "TOKEN": "token-geheim", "KEY": "key-geheim"}
    notifier = start("env:HOOK", environ, token_env="TOKEN", secret_env="KEY")
    notifier.tell(entry("ok", "warn"))
    assert _results(notifier) == {"refused": 1}
    request = receiver.next()
    assert request.path == "/hook/geheim"
    assert request.headers["Authorization"] == "Bearer token-geheim"
    assert request.headers["Content-Type"] == "application/json"
    signature = hmac.new(b"key-geheim", request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Shortfirst-Signature"] == f"sha256={signature}"
    assert "HTTP 403: said so" in caplog.text
    assert "geheim" not in caplog.text


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_what_may_pass_is_tried_again(start, receiver, entry, status):
    receiver.answers = [(status, {"Retry-After": "0"}), (status, {})]
    notifier = start(receiver.url)
    notifier.tell(entry("ok", "warn"))
    assert _results(notifier) == {"retried": 2, "delivered": 1}
    assert len({receiver.next().body for _ in range(3)}) == 1


@pytest.mark.parametrize("status", [400, 404, 302])
def test_what_will_not_pass_is_not(start, receiver, entry, status):
    receiver.answers = [(status, {"Location": receiver.url})]
    notifier = start(receiver.url)
    notifier.tell(entry("ok", "warn"))
    assert _results(notifier) == {"refused": 1}
    receiver.next()
    assert receiver.requests.empty()


def test_nobody_listens(start, entry, free_port, caplog):
    notifier = start(f"http://127.0.0.1:{free_port}/geheim")
    notifier.tell(entry("ok", "warn"))
    assert _results(notifier) == {"retried": 2, "exhausted": 1}
    assert "no answer: Connection refused" in caplog.text
    assert "geheim" not in caplog.text


def test_a_name_that_no_host_can_have_is_no_answer(start, entry, caplog):
    notifier = start("http://a..b/geheim")
    notifier.tell(entry("ok", "warn"))
    assert _results(notifier) == {"retried": 2, "exhausted": 1}
    assert "Traceback" not in caplog.text


def test_a_receiver_that_hangs_holds_nobody_up_and_its_queue_is_bounded(start, receiver, entry):
    receiver.gate.clear()
    notifier = start(receiver.url, queue=3)
    notifier.tell(entry("ok", "warn", 1.0))
    first = receiver.next()  # it is being sent now
    for at in range(2, 12):
        notifier.tell(entry("ok", "warn", float(at)))
    (delivery,) = notifier.deliveries()
    assert (delivery.waiting, delivery.results) == (4, {"dropped": 7})
    receiver.gate.set()
    assert _results(notifier) == {"dropped": 7, "delivered": 4}
    sent = [receiver.next().json["at"] for _ in range(3)]
    assert [first.json["at"][-6:], *(at[-6:] for at in sent)] == [
        "01.000Z"[-6:], "09.000Z"[-6:], "10.000Z"[-6:], "11.000Z"[-6:]
    ]  # fmt: skip


def test_closing_gives_up_what_cannot_be_sent(start, receiver, entry):
    receiver.gate.clear()
    notifier = start(receiver.url)
    notifier.tell(entry("ok", "warn", 1.0))
    receiver.next()
    notifier.tell(entry("warn", "ok", 2.0))
    notifier.close(0.0)
    (delivery,) = notifier.deliveries()
    assert delivery.results == {"unsent": 2}
    notifier.tell(entry("ok", "warn", 3.0))
    assert notifier.deliveries()[0].waiting <= 1


def test_an_alertmanager_is_told_until_it_is_over(start, receiver, entry):
    base = receiver.url.removesuffix("/hook/geheim")
    notifier = start(base, kind="alertmanager", resend_s=0.05)
    notifier.tell(entry("ok", "degraded"))
    sent = [receiver.next() for _ in range(3)]
    assert {request.path for request in sent} == {"/api/v2/alerts"}
    assert len({request.body for request in sent}) == 1  # the clock stands still here
    notifier.tell(entry("degraded", "ok", 1_700_000_500.0))
    results = _results(notifier)
    assert results["delivered"] == 2
    assert results["resent"] >= 2
    last = sent[-1]
    while not receiver.requests.empty():
        last = receiver.next()
    (over,) = last.json
    assert over["endsAt"] == "2023-11-14T22:30:00.000Z"  # NOW
    assert over["labels"] == sent[0].json[0]["labels"]


def test_an_alert_is_sent_again_however_much_else_is_told(start, receiver, entry):
    notifier = start(receiver.url, kind="alertmanager", resend_s=0.05)
    notifier.tell(entry("ok", "degraded"))
    first, at = receiver.next(), 1_700_000_000.0
    while receiver.requests.empty() and at < 1_700_200_000.0:
        at += 1.0
        notifier.tell(entry("degraded", "degraded", at, kind="reference"))  # nothing to it
    assert not receiver.requests.empty()
    assert receiver.next().json[0]["labels"] == first.json[0]["labels"]


def test_alerts_outlive_a_restart_at_an_alertmanager_alone(start, receiver, entry):
    before = entry("ok", "degraded")
    for kind in ("slack", "alertmanager"):
        notifier = start(receiver.url, kind=kind, resend_s=0.05)
        notifier.restore([before])
        notifier.tell(before)  # replayed: it was told before
        if kind == "alertmanager":
            assert receiver.next().json[0]["labels"]["severity"] == "critical"
            assert set(_results(notifier)) == {"duplicate", "resent"}
        else:
            notifier.tell(entry("degraded", "ok", 1_700_000_500.0))
            assert _results(notifier) == {"duplicate": 1, "delivered": 1}
            assert receiver.next().json["text"].startswith(":white_check_mark:")


def test_a_missing_secret_stops_the_start_before_any_thread(receiver):
    before = threading.active_count()
    hooks = [Webhook(url=receiver.url), Webhook(url="env:NOWHERE")]
    with pytest.raises(ValueError, match="NOWHERE is not set"):
        Notifier(hooks, {}, lambda: NOW, random.Random(1))
    assert threading.active_count() == before


def test_what_became_of_them_is_exported(start, receiver, entry):
    notifier = start(receiver.url)
    registry = CollectorRegistry()
    registry.register(NotifyCollector(notifier))
    notifier.tell(entry("ok", "warn"))
    results = _results(notifier)
    assert set(results) <= set(RESULTS)

    def value(name, **labels):
        return registry.get_sample_value(name, {"webhook": "hook", "kind": "json", **labels})

    total = "shortfirst_drift_notifications_total"
    assert value(total, result="delivered") == 1
    assert value(total, result="exhausted") == 0
    assert value("shortfirst_drift_notifications_waiting") == 0
    assert value("shortfirst_drift_notifications_firing") == 1
