"""A real Alertmanager takes the alerts, shows them, and lets go of them."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
import urllib.request

import pytest

from drift.notify.config import Webhook
from drift.notify.notifier import Notifier

BINARY = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")

pytestmark = pytest.mark.skipif(
    BINARY is None, reason="no Alertmanager here: apt-get install prometheus-alertmanager"
)


@pytest.fixture
def alertmanager(tmp_path, free_port):
    config = tmp_path / "am.yml"
    config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(BINARY), f"--config.file={config}", f"--storage.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{free_port}", "--cluster.listen-address=",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        base = f"http://127.0.0.1:{free_port}"
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{base}/-/ready", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield base
        finally:
            process.terminate()
            process.wait(60)


def _shown(base):
    with urllib.request.urlopen(f"{base}/api/v2/alerts", timeout=30) as answer:
        return [
            (alert["labels"]["severity"], alert["annotations"]["state"])
            for alert in json.load(answer)
        ]


def test_it_shows_what_fires(alertmanager, entry):
    def tell(before, after, ago):
        notifier = Notifier(
            [Webhook(url=alertmanager, kind="alertmanager", name="am")],
            {},
            time.time,
            random.Random(1),
        )
        notifier.restore(said)
        said.append(entry(before, after, started - ago, lane="", tenant="acme"))
        notifier.tell(said[-1])
        notifier.close(60.0)
        assert notifier.deliveries()[0].results == {"delivered": 1}
        return _shown(alertmanager)

    started, said = time.time(), []
    assert tell("ok", "warn", 30.0) == [("warning", "warn")]
    assert tell("warn", "degraded", 20.0) == [("critical", "degraded")]
    assert tell("degraded", "ok", 10.0) == []
