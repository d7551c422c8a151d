from __future__ import annotations

import tomllib

import pytest

from drift.notify.config import RetryConfig, Webhook, webhooks

SECRET = "https://hooks.slack.example/services/T0/B0/geheim"


def test_flags_and_tables_together():
    table = tomllib.loads(
        """
        [[webhook]]
        kind = "slack"
        url = "env:SLACK_URL"
        level = "degraded"
        retry = { attempts = 3 }
        [[webhook]]
        kind = "alertmanager"
        name = "am"
        url = "http://am:9093/"
        token_env = "AM_TOKEN"
        """
    )
    found = webhooks([f"slack={SECRET}", "http://127.0.0.1:9/x?a=b"], table)
    assert [(w.name, w.kind) for w in found] == [
        ("slack", "slack"), ("json", "json"), ("slack-2", "slack"), ("am", "alertmanager"),
    ]  # fmt: skip
    environ = {"SLACK_URL": SECRET, "AM_TOKEN": "t"}
    assert found[1].address({}) == "http://127.0.0.1:9/x?a=b"
    assert found[2].address(environ) == SECRET
    assert found[2].retry == RetryConfig(attempts=3)
    assert found[3].address(environ) == "http://am:9093/api/v2/alerts"
    assert found[3].token(environ) == "t"


def test_no_address_is_ever_shown():
    assert "geheim" not in repr(webhooks([f"slack={SECRET}"]))
    for bad in (SECRET + " x", SECRET.replace("https", "ftp"), "https://u:geheim@host/"):
        with pytest.raises(ValueError, match=r"webhook\.url") as raised:
            Webhook.of_flag(bad)
        assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"webhooks": []}, "webhooks is not a setting"),
        ({"webhook": {}}, "array of tables"),
        ({"webhook": [{"url": "http://h/", "colour": "red"}]}, "colour is not a setting"),
        ({"webhook": [{"kind": "json"}]}, "url must be given"),
        ({"webhook": [{"url": "http://h/", "kind": "teams"}]}, "json, slack, alertmanager"),
        ({"webhook": [{"url": "http://h/", "level": "ok"}]}, "warn, degraded, fcfs"),
        ({"webhook": [{"url": "http://h/", "queue": "9"}]}, "queue has the wrong type"),
        ({"webhook": [{"url": "http://h/", "queue": 0}]}, "queue must be >= 1"),
        ({"webhook": [{"url": "http://h/", "timeout_s": float("inf")}]}, "timeout_s"),
        ({"webhook": [{"url": "http://h/", "retry": {"tries": 1}}]}, "tries is not a setting"),
        ({"webhook": [{"url": "http://h/", "retry": {"attempts": "1"}}]}, "numbers only"),
        ({"webhook": [{"url": "http://h/", "kind": "slack", "secret_env": "S"}]}, "signs JSON"),
        ({"webhook": [{"url": "env:not a name"}]}, "name of a variable"),
        ({"webhook": [{"url": "http://h/", "name": "a"}] * 2}, "given twice"),
    ],
)
def test_mistakes_name_the_field(table, said):
    with pytest.raises(ValueError, match=said):
        webhooks([], table)


def test_a_missing_secret_names_its_variable():
    one = Webhook(url="env:HOOK", token_env="TOKEN")
    with pytest.raises(ValueError, match="HOOK is not set"):
        one.address({})
    with pytest.raises(ValueError, match="TOKEN is not set"):
        one.token({"TOKEN": " "})
    with pytest.raises(ValueError, match="printable"):
        one.token({"TOKEN": "a\nX-Evil: b"})
