"""The configuration of HAProxy, exactly."""

from pathlib import Path

from modak_deploy.services.front import configuration, probed
from modak_deploy.services.steps import service_of
from services import replica, seen, service_plan

HTTP = """\
# Written by modak for the service probe; changes are lost.
global
    stats socket /s/probe/front/admin.sock mode 600 level admin expose-fd listeners
    hard-stop-after 30s

defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    # Without it a check must be answered before the next one, and a busy replica is taken for a dead one.
    timeout check 5s
    retries 3
    option redispatch
    timeout http-request 30s
    timeout http-keep-alive 5s
    # A connection to a replica is not kept, so that none is closed at the moment when it is used again.
    option http-server-close
    # A client's idle connection ends with the answer to its next request, not while that is on its way (2.6, 4.2).
    option idle-close-on-response

frontend clients
    bind 127.0.0.1:18080
    default_backend replicas

backend replicas
    balance leastconn
    option httpchk
    http-check send meth GET uri /ready?x=1 ver HTTP/1.1 hdr Host localhost hdr Connection close
    http-check expect status 200-299
    default-server check inter 5s fastinter 1s downinter 1s fall 3 rise 1
    server r0000000000000001 127.0.0.1:20001
"""


def test_clients_are_led_to_serving_replicas_alone(tmp_path: Path) -> None:
    made = service_plan(tmp_path, health="/ready?x=1")
    record = seen(made, replica(1, made), replica(2, made, "retired"), replica(3, made, "starting")).record
    assert record.front is not None
    assert configuration(record, record.front, service_of(made), "/s/probe") == HTTP


def test_tcp_has_no_http_and_a_long_folder_no_socket(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    record = seen(made, replica(1, made)).record
    assert record.front is not None
    text = configuration(record, record.front, service_of(made), "/s" * 50)
    assert "mode tcp" in text and "http" not in text and "socket" not in text
    assert "socket" not in configuration(record, record.front, service_of(made), "/a b")


def test_the_host_reaches_what_is_open_on_all_addresses() -> None:
    every = "0.0.0.0"  # noqa: S104
    assert [probed(address) for address in (every, "::", "10.0.0.1")] == ["127.0.0.1", "::1", "10.0.0.1"]
