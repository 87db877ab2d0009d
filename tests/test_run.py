"""`make run`, without building: what it starts can be used, and ends with it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from harness import MODULE
from harness.gateway import GATEWAY
from harness.server import PROJECT, free_port
from phones import Phone


def post(url, **body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_make_run_brings_up_redis_gateway_and_page(end):
    ports = {"PORT": str(free_port()), "WEB_PORT": str(free_port())}
    command = [sys.executable, PROJECT / "scripts/serve.py", MODULE, GATEWAY]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | ports, start_new_session=True)
    try:
        told = ""
        while "Ctrl-C" not in told:
            line = run.stdout.readline()
            assert line, told
            told += line
        [page] = re.findall(r"the page +(http://\S+)$", told, re.MULTILINE)
        assert page.endswith(ports["WEB_PORT"]) and f"port {ports['PORT']}" in told
        for path in ["/", "/playground", "/metrics"]:
            with urllib.request.urlopen(page + path, timeout=10) as answer:
                assert answer.status == 200

        class At:
            port = int(ports["WEB_PORT"])

        phone = Phone(At)
        phone.say("hello", token=post(f"{page}/demo/token", user="asha")["token"], room="gig:42", share="friends")
        phone.hears("welcome")
        run.send_signal(end)
        assert run.wait(30) == 0 and phone.ends() == 1012
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
