"""redis-py against a decision server: HOST PORT [PASSWORD [AUTHORITY]]."""

import sys

import redis

host, port, *more = sys.argv[1:]
password = more[0] if more else None
encrypted = {"ssl": True, "ssl_ca_certs": more[1]} if len(more) > 1 else {}


def equal(actual, expected):
    assert actual == expected, f"{actual!r} is not {expected!r}"


def connect(**settings):
    return redis.Redis(host=host, port=int(port), password=password, **encrypted, **settings)


def converse(name, client):
    equal(client.ping(), True)
    throttle = lambda *words: client.execute_command("CL.THROTTLE", *words)
    # The example of redis-cell's documentation.
    equal(throttle(f"{name}:documented", 15, 30, 60, 1), [0, 16, 15, -1, 2])
    # A bucket of one: the second request is refused, with the wait.
    equal(throttle(f"{name}:single", 0, 1, 3600), [0, 1, 0, -1, 3600])
    equal(throttle(f"{name}:single", 0, 1, 3600), [1, 1, 0, 3600, 3600])
    # A peek consumes nothing; a request that can never be admitted has no wait.
    equal(throttle(f"{name}:looked", 4, 1, 3600, 0), [0, 5, 5, -1, 0])
    equal(throttle(f"{name}:looked", 4, 1, 3600, 6), [1, 5, 5, -1, 0])
    # A name with anything in it is a name.
    equal(throttle(b"{" + name.encode() + b"}\r\n\x00\xff", 4, 1, 3600), [0, 5, 4, -1, 3600])
    equal(client.execute_command("THROTTLE", f"{name}:crab", 5, 1, 3600)[:3], [1, 5, 4])

    equal(client.execute_command("SLUICE.PEEK", "logins", "account", name)[:3], [1, 3, 3])
    for remaining in (2, 1, 0):
        reply = client.execute_command("SLUICE.CHECK", "logins", "account", name)
        equal((reply[0], reply[2], reply[6]), (1, remaining, b"logins"))
    refused = client.execute_command("SLUICE.CHECK", "logins", "account", name)
    equal(refused[:3], [0, 3, 0])
    assert 0 < refused[3] <= 7_200_000, refused

    for wrong in (["CL.THROTTLE", "a", 1, 0, 60], ["CL.THROTTLE", "a", "x", 1, 60], ["SLUICE.CHECK", "unknown"], ["GET", "a"]):
        try:
            reply = client.execute_command(*wrong)
        except redis.ResponseError:
            continue
        raise AssertionError(f"{wrong} got the reply {reply!r}")

    # As they come, pipelines are transactions.
    for key, pipeline in ((f"{name}:many", client.pipeline()), (f"{name}:plain", client.pipeline(transaction=False))):
        for _ in range(1_000):
            pipeline.execute_command("CL.THROTTLE", key, 999, 1, 3600)
        reply = pipeline.execute()
        equal([limited for limited, *_ in reply], [0] * 1_000)
        equal([remaining for _, _, remaining, *_ in reply], list(reversed(range(1_000))))

    # A client reconnects after QUIT.
    before = client.client_id()
    equal(client.execute_command("QUIT"), True)
    equal(throttle(f"{name}:single", 0, 1, 3600)[0], 1)
    assert client.client_id() != before


converse("as-it-comes", connect())
converse("second", connect(protocol=2))
converse("third", connect(protocol=3))
with redis.Redis(connection_pool=redis.ConnectionPool.from_url(
    f"redis{'s' if encrypted else ''}://{':' + password + '@' if password else ''}{host}:{port}/0",
    **({"ssl_ca_certs": more[1]} if encrypted else {}),
)) as client:
    equal(client.ping(), True)
    equal(client.info()["redis_mode"], "standalone")

if password:
    for wrong in (None, "not it"):
        stranger = redis.Redis(host=host, port=int(port), password=wrong, **encrypted)
        try:
            stranger.execute_command("CL.THROTTLE", "stranger", 1, 1, 3600)
        except redis.AuthenticationError:
            continue
        raise AssertionError(f"{wrong} was accepted")
print("all was as it should be")
