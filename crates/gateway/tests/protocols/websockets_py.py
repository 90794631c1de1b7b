"""A WebSocket server and a client that others wrote (websockets, from PyPI), to talk through the gateway.

    websockets_py.py serve                       prints its port, and says back whatever it is told
    websockets_py.py talk URL [AUTHORITY]        holds the conversation, and prints that all was as it should be
"""

import asyncio
import ssl
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

LARGEST = 8 << 20


async def echo(socket):
    """Says back messages as they are, in one piece or many, until told to close in some way."""
    try:
        async for message in socket:
            if isinstance(message, str) and message.startswith("close "):
                await socket.close(int(message.split()[1]), "as you wish")
            elif isinstance(message, str) and message.startswith("in pieces "):
                await socket.send(piece for piece in message.split())
            elif message == "ping me":
                await (await socket.ping(b"are you there"))
                await socket.send("you are there")
            else:
                await socket.send(message)
    except ConnectionClosed:
        pass


async def run_server():
    async with serve(echo, "127.0.0.1", 0, max_size=LARGEST, compression="deflate", ping_interval=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


async def said(socket, message):
    await socket.send(message)
    return await socket.recv()


async def talk(url, authority):
    tls = ssl.create_default_context(cafile=authority) if authority else None

    def join(path="/ws", **more):
        return connect(url + path, ssl=tls, max_size=LARGEST, ping_interval=None, proxy=None, **more)

    for compression in ["deflate", None]:
        async with join(compression=compression) as socket:
            assert await said(socket, "hello") == "hello"
            assert await said(socket, "") == ""
            assert await said(socket, "\u4f60\u597d \U0001f4a7") == "\u4f60\u597d \U0001f4a7"
            assert await said(socket, b"\x00\xff\r\n\r\n") == b"\x00\xff\r\n\r\n"
            large = bytes(range(256)) * (4 << 12)
            assert await said(socket, large) == large
            # In many frames, both ways; pings may come between them.
            parts = [bytes([number]) * 70_001 for number in range(40)]
            assert await said(socket, iter(parts)) == b"".join(parts)
            assert await said(socket, "in pieces one two three") == "inpiecesonetwothree"
            await (await socket.ping(b"hello there"))
            assert await said(socket, "ping me") == "you are there"
            # Many on the way at once stay in order.
            for number in range(500):
                await socket.send(str(number))
            assert [await socket.recv() for _ in range(500)] == [str(number) for number in range(500)]
            await socket.close(4001, "enough")
            assert (socket.close_code, socket.close_reason) == (4001, "enough")
        assert socket.close_code == 4001, socket.close_code

    for code in [1000, 1011, 3000, 4999]:
        async with join() as socket:
            await socket.send(f"close {code}")
            try:
                raise AssertionError(await socket.recv())
            except ConnectionClosed as closed:
                assert closed.rcvd and (closed.rcvd.code, closed.rcvd.reason) == (code, "as you wish"), closed

    # Two at once are allowed; each counts for as long as it is open.
    async with join("/limited") as first, join("/limited") as second:
        assert await said(first, "one") == "one"
        assert await said(second, "two") == "two"
        for _ in range(3):
            try:
                async with join("/limited"):
                    raise AssertionError("a third was let in")
            except InvalidStatus as refused:
                assert refused.response.status_code == 429, refused
        await second.close()
        # The other side's end comes to the gateway a moment later.
        for attempt in range(1_000):
            try:
                async with join("/limited") as third:
                    assert await said(third, "three") == "three"
                    break
            except InvalidStatus:
                await asyncio.sleep(0.005)
        else:
            raise AssertionError("the second's place stays taken")
        assert await said(first, "still here") == "still here"
    print("all was as it should be")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(run_server())
    else:
        asyncio.run(asyncio.wait_for(talk(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None), 60))
