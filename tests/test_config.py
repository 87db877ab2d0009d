"""The settings `presence.*`: CONFIG GET and SET, load arguments, the configuration file, CONFIG REWRITE."""

import pytest

from harness import MODULE, Err, ReplyError

DAY = 24 * 60 * 60 * 1000
# Name: default, least, greatest.
NUMBERS = {
    "timeout": (30_000, 100, DAY),
    "grace": (15_000, 0, DAY),
    "recent": (300_000, 0, DAY),
    "uniques-days": (2, 0, 400),
    "count-every": (5_000, 0, DAY),
    "feed": (0, 0, 1_000_000),
    "interval-over": (1_000, 0, 1_000_000),
    "max-members": (0, 0, 1_000_000_000),
    "max-sessions": (64, 1, 64),
    "max-data": (1_024, 0, 1_024),
    "tick-budget-us": (1_000, 50, 100_000),
}
# Name: all values, the default first.
WORDS = {
    "share-default": ("nobody", "friends", "everyone"),
    "reciprocal": ("no", "yes"),
    "auto-create": ("yes", "no"),
    "pubsub": ("auto", "classic", "sharded"),
}
DEFAULTS = (
    {name: str(default) for name, (default, _, _) in NUMBERS.items()}
    | {name: values[0] for name, values in WORDS.items()}
    | {"day-zone": "UTC"}
)


def settings(client):
    """All settings of the module, without their prefix."""
    flat = client("CONFIG", "GET", "presence.*")
    pairs = zip(flat[::2], flat[1::2])
    return {name.decode().removeprefix("presence."): value.decode() for name, value in pairs}


def get(client, name):
    return settings(client)[name]


def put(client, name, value):
    return client.call("CONFIG", "SET", f"presence.{name}", value)


def test_every_setting_has_its_default(client):
    assert settings(client) == DEFAULTS


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_keep_their_range(client, name):
    default, least, greatest = NUMBERS[name]
    for value in (least, greatest, default):
        assert put(client, name, value) == "OK"
        assert get(client, name) == str(value)
    for value in (least - 1, greatest + 1, -(2**63), 2**63 - 1):
        refused = put(client, name, value)
        assert isinstance(refused, Err) and f"between {least} and {greatest}" in refused
    for value in ("", "x", "1.5", 2**63, f"{default}ms"):
        assert isinstance(put(client, name, value), Err)
    assert settings(client) == DEFAULTS


@pytest.mark.parametrize("name", WORDS)
def test_words_are_taken_in_any_case(client, name):
    for value in WORDS[name]:
        assert put(client, name, value.upper()) == "OK"
        assert get(client, name) == value
    for value in ("", "maybe", "0"):
        assert isinstance(put(client, name, value), Err)
    assert get(client, name) == WORDS[name][-1]


def test_the_day_zone_must_exist(client):
    for zone in ("Europe/Berlin", "Asia/Kolkata", "America/Argentina/Buenos_Aires", "UTC"):
        assert put(client, "day-zone", zone) == "OK"
        assert get(client, "day-zone") == zone
    for zone in ("", "Atlantis/Capital", "Europe/Berlin ", b"Europe\0Berlin", b"\xff\xfe", "../etc/localtime", "x" * 100_000):
        refused = put(client, "day-zone", zone)
        assert isinstance(refused, Err) and "IANA" in refused
    assert get(client, "day-zone") == "UTC"


def test_a_refused_setting_takes_its_companions_along(client):
    refused = client.call("CONFIG", "SET", "presence.timeout", 200, "presence.day-zone", "Asia/Kolkata", "presence.grace", -1)
    assert isinstance(refused, Err)
    assert settings(client) == DEFAULTS


OTHERS = {
    "timeout": "5000",
    "grace": "0",
    "recent": "1000",
    "uniques-days": "30",
    "count-every": "250",
    "feed": "100",
    "interval-over": "50",
    "max-members": "12",
    "max-sessions": "3",
    "max-data": "16",
    "tick-budget-us": "500",
    "share-default": "friends",
    "reciprocal": "yes",
    "auto-create": "no",
    "pubsub": "classic",
    "day-zone": "Europe/Berlin",
}


def test_load_arguments_set_everything(make_server):
    args = [word for pair in OTHERS.items() for word in pair]
    assert settings(make_server(args=args).client()) == OTHERS


def test_load_arguments_may_have_the_prefix_and_any_case(make_server):
    server = make_server(args=["presence.TIMEOUT", 5000, "Share-Default", "EVERYONE", "PRESENCE.reciprocal", "Yes"])
    changed = {"timeout": "5000", "share-default": "everyone", "reciprocal": "yes"}
    assert settings(server.client()) == DEFAULTS | changed


def test_the_configuration_file_sets_everything(make_server):
    server = make_server(config={f"presence.{name}": value for name, value in OTHERS.items()})
    assert settings(server.client()) == OTHERS


def test_the_configuration_file_beats_load_arguments(make_server):
    server = make_server(args=["timeout", 5000, "grace", 77], config={"presence.timeout": 7000})
    assert settings(server.client()) == DEFAULTS | {"timeout": "7000", "grace": "77"}


REFUSED = {
    "unknown": (["colour", "red"], "unknown load argument 'colour'"),
    "unknown prefix": (["absence.timeout", 5000], "unknown load argument"),
    "no value": (["timeout", 5000, "grace"], "'grace' has no value"),
    "twice": (["timeout", 5000, "presence.Timeout", 5000], "given twice"),
    "too small": (["timeout", 99], "timeout must be a number between 100 and 86400000"),
    "too great": (["max-sessions", 65], "max-sessions must be a number between 1 and 64"),
    "no number": (["feed", "many"], "feed must be a number between 0 and 1000000"),
    "no word": (["pubsub", "loud"], "pubsub must be one of auto, classic, sharded"),
    "no flag": (["reciprocal", "1"], "reciprocal must be yes or no"),
    "no zone": (["day-zone", "Atlantis/Capital"], "IANA"),
    "a format": (["%n%s%n", "%s"], "unknown load argument '%n%s%n'"),
    "a line of its own": (["x\n# all is well", "1"], "unknown load argument 'x?# all is well'"),
}


@pytest.mark.warnings_ok
@pytest.mark.parametrize("args, reason", REFUSED.values(), ids=REFUSED)
def test_a_wrong_load_argument_refuses_the_module_only(make_server, args, reason):
    server = make_server(module=False)
    client = server.client()
    with pytest.raises(ReplyError):
        client("MODULE", "LOAD", MODULE.resolve(), *args)
    assert len([line for line in server.warnings() if "not loaded: " in line and reason in line]) == 1
    # Nothing is left of it: the next one loads.
    assert settings(client) == {}
    assert client("MODULE", "LOAD", MODULE.resolve(), "grace", 9) == "OK"
    assert settings(client) == DEFAULTS | {"grace": "9"}


@pytest.mark.warnings_ok
@pytest.mark.parametrize("options", [{"args": ["timeout", 99]}, {"config": {"presence.timeout": 99}}], ids=["args", "file"])
def test_a_server_with_a_wrong_setting_does_not_start(make_server, options):
    with pytest.raises(RuntimeError, match="between 100 and 86400000"):
        make_server(**options)


def test_loadex_sets_both_ways(make_server):
    client = make_server(module=False).client()
    path = MODULE.resolve()
    assert client("MODULE", "LOADEX", path, "CONFIG", "presence.timeout", 400, "ARGS", "timeout", 500, "grace", 600) == "OK"
    assert settings(client) == DEFAULTS | {"timeout": "400", "grace": "600"}


def test_rewrite_keeps_what_was_set(make_server):
    server = make_server()
    client = server.client()
    for name, value in OTHERS.items():
        assert put(client, name, value) == "OK"
    assert client("CONFIG", "REWRITE") == "OK"
    server.restart()
    client = server.client()
    assert settings(client) == OTHERS

    # Back to the defaults, in the file too.
    for name, value in DEFAULTS.items():
        assert put(client, name, value) == "OK"
    assert client("CONFIG", "REWRITE") == "OK"
    server.restart()
    assert settings(server.client()) == DEFAULTS


def test_rewrite_and_load_arguments_agree(make_server):
    server = make_server(args=["timeout", 5000, "grace", 100, "day-zone", "Asia/Kolkata", "recent", 7])
    client = server.client()
    # What is set later wins over the argument, even where it is the module's own default.
    assert put(client, "timeout", 7000) == "OK"
    assert put(client, "grace", DEFAULTS["grace"]) == "OK"
    assert put(client, "day-zone", "UTC") == "OK"
    assert client("CONFIG", "REWRITE") == "OK"
    expected = DEFAULTS | {"timeout": "7000", "recent": "7"}
    assert settings(client) == expected
    server.restart()
    assert settings(server.client()) == expected

    # And setting the argument's value again brings that back.
    client = server.client()
    assert put(client, "timeout", 5000) == "OK"
    assert client("CONFIG", "REWRITE") == "OK"
    server.restart()
    assert settings(server.client()) == expected | {"timeout": "5000"}
