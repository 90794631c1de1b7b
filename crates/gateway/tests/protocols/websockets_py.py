"""WebSocket server and client based on the third-party package websockets (PyPI), for tests through the gateway.

    websockets_py.py serve                       runs an echo server; prints its port
    websockets_py.py check URL [CA_FILE]         runs the client checks; prints "ok"
"""

import asyncio
import ssl
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

MAX_MESSAGE_BYTES = 8 << 20


async def echo(socket):
    """Echoes messages, in one or several frames, until a message requests a close."""
    try:
        async for message in socket:
            if isinstance(message, str) and message.startswith("close "):
                await socket.close(int(message.split()[1]), "requested")
            elif isinstance(message, str) and message.startswith("fragmented "):
                await socket.send(part for part in message.split())
            elif message == "ping":
                await (await socket.ping(b"server ping"))
                await socket.send("pong")
            else:
                await socket.send(message)
    except ConnectionClosed:
        pass


async def run_server():
    async with serve(echo, "127.0.0.1", 0, max_size=MAX_MESSAGE_BYTES, compression="deflate", ping_interval=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


async def round_trip(socket, message):
    await socket.send(message)
    return await socket.recv()


async def check(url, ca_file):
    tls = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def open_socket(path="/ws", **more):
        return connect(url + path, ssl=tls, max_size=MAX_MESSAGE_BYTES, ping_interval=None, proxy=None, **more)

    for compression in ["deflate", None]:
        async with open_socket(compression=compression) as socket:
            assert await round_trip(socket, "hello") == "hello"
            assert await round_trip(socket, "") == ""
            assert await round_trip(socket, "\u4f60\u597d \U0001f4a7") == "\u4f60\u597d \U0001f4a7"
            assert await round_trip(socket, b"\x00\xff\r\n\r\n") == b"\x00\xff\r\n\r\n"
            large = bytes(range(256)) * (4 << 12)
            assert await round_trip(socket, large) == large
            # Fragmented messages in both directions, interleaved with pings.
            parts = [bytes([number]) * 70_001 for number in range(40)]
            assert await round_trip(socket, iter(parts)) == b"".join(parts)
            assert await round_trip(socket, "fragmented one two three") == "fragmentedonetwothree"
            await (await socket.ping(b"hello there"))
            assert await round_trip(socket, "ping") == "pong"
            # Many messages in flight stay in order.
            for number in range(500):
                await socket.send(str(number))
            assert [await socket.recv() for _ in range(500)] == [str(number) for number in range(500)]
            await socket.close(4001, "enough")
            assert (socket.close_code, socket.close_reason) == (4001, "enough")
        assert socket.close_code == 4001, socket.close_code

    for code in [1000, 1011, 3000, 4999]:
        async with open_socket() as socket:
            await socket.send(f"close {code}")
            try:
                raise AssertionError(await socket.recv())
            except ConnectionClosed as closed:
                assert closed.rcvd and (closed.rcvd.code, closed.rcvd.reason) == (code, "requested"), closed

    # Two connections are allowed; each counts while it is open.
    async with open_socket("/limited") as first, open_socket("/limited") as second:
        assert await round_trip(first, "one") == "one"
        assert await round_trip(second, "two") == "two"
        for _ in range(3):
            try:
                async with open_socket("/limited"):
                    raise AssertionError("a third connection was admitted")
            except InvalidStatus as refused:
                assert refused.response.status_code == 429, refused
        await second.close()
        # The gateway sees the close a moment later.
        for attempt in range(1_000):
            try:
                async with open_socket("/limited") as third:
                    assert await round_trip(third, "three") == "three"
                    break
            except InvalidStatus:
                await asyncio.sleep(0.005)
        else:
            raise AssertionError("the permit of the second connection was not released")
        assert await round_trip(first, "open") == "open"
    print("ok")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(run_server())
    else:
        asyncio.run(asyncio.wait_for(check(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None), 60))
