// ioredis against a decision server: HOST PORT [PASSWORD [AUTHORITY]].
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");

// Installed by scripts/install-clients; NODE_PATH points to it.
const { Redis } = require("ioredis");

const [host, port, password, authority] = process.argv.slice(2);
const tls = authority && { ca: fs.readFileSync(authority) };
const settings = { host, port: Number(port), ...(password && { password }), ...(tls && { tls }) };

async function converse() {
    const client = new Redis(settings);
    client.on("error", (error) => console.error(`error: ${error.message}`));
    assert.equal(await client.ping(), "PONG");
    const throttle = (...words) => client.call("CL.THROTTLE", ...words);
    // The example of redis-cell's documentation.
    assert.deepEqual(await throttle("js:documented", 15, 30, 60, 1), [0, 16, 15, -1, 2]);
    assert.deepEqual(await throttle("js:single", 0, 1, 3600), [0, 1, 0, -1, 3600]);
    assert.deepEqual(await throttle("js:single", 0, 1, 3600), [1, 1, 0, 3600, 3600]);
    assert.deepEqual(await throttle("js:looked", 4, 1, 3600, 0), [0, 5, 5, -1, 0]);
    assert.deepEqual(await throttle("js:looked", 4, 1, 3600, 6), [1, 5, 5, -1, 0]);
    assert.deepEqual((await client.call("THROTTLE", "js:crab", 5, 1, 3600)).slice(0, 3), [1, 5, 4]);
    assert.deepEqual((await client.call("SLUICE.CHECK", "logins", "account", "js")).slice(0, 3), [1, 3, 2]);
    await assert.rejects(client.call("CL.THROTTLE", "js", 1, 0, 60), /Zero rates/);
    await assert.rejects(client.get("js"), /unknown command/);

    const pipeline = client.pipeline();
    for (let index = 0; index < 1000; index += 1) {
        pipeline.call("CL.THROTTLE", "js:many", 999, 1, 3600);
    }
    const replies = await pipeline.exec();
    assert.deepEqual(replies.map(([error, [limited]]) => [error, limited]), Array(1000).fill([null, 0]));
    assert.deepEqual(replies.map(([, numbers]) => numbers[2]), [...Array(1000).keys()].reverse());

    // A client reconnects after a lost connection.
    const before = await client.client("ID");
    const back = new Promise((resolve) => client.once("ready", resolve));
    client.disconnect(true);
    await back;
    assert.notEqual(await client.client("ID"), before);
    assert.equal((await throttle("js:single", 0, 1, 3600))[0], 1);
    assert.equal(await client.quit(), "OK");
}

async function strangersAreRefused() {
    for (const wrong of [undefined, "not it"]) {
        const { password: _, ...open } = settings;
        const client = new Redis({ ...open, ...(wrong && { password: wrong }), retryStrategy: () => null });
        client.on("error", () => {});
        await assert.rejects(client.call("CL.THROTTLE", "stranger", 1, 1, 3600));
        client.disconnect();
    }
}

converse()
    .then(() => (password ? strangersAreRefused() : undefined))
    .then(() => console.log("all was as it should be"))
    .catch((error) => {
        console.error(error);
        process.exit(1);
    });
