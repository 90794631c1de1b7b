//! The tables of `gateway`.

use super::super::Presence::{Default, Required};
use super::super::{Field, Section, Shape};
use super::{ABSENT, HEADERS};

const U32: u64 = u32::MAX as u64;

/// `gateway`.
pub(crate) static GATEWAY: Section = Section {
    name: "gateway",
    doc: "The reverse proxy in front of any program.",
    fields: fields! {
        "listen": Shape::Either(&[LISTEN, Shape::List(&LISTEN)]), Default("127.0.0.1:8080"), "0.0.0.0:8080",
            "Where it listens: one address or several.";
        "connections": Shape::Section(&CONNECTIONS), ABSENT, "{ max: 10000, queue: 500, per_client: 100 }",
            "The front door, before anything is read.";
        "in_flight": Shape::Count(1, U32), Default("no bound"), "400",
            "The most requests under way to upstreams at once.";
        "threads": Shape::Count(1, 1024), Default("one for each core"), "2",
            "How many threads serve.";
        "trusted_proxies": Shape::List(&Shape::Network), Default("nobody"), "[10.0.0.0/8]",
            "Whose forwarded headers and PROXY lines say who the client is.";
        "forwarded": Shape::Either(&[
            Shape::Word(&[
                ("x-forwarded-for", "a list to which each proxy adds whom it was called by"),
                ("forwarded", "the same as RFC 7239 has it"),
            ]),
            Shape::HeaderName,
        ]), Default("x-forwarded-for"), "x-real-ip",
            "The header in which trusted proxies say who the client is; no other is read. One of any other name \
             holds one address.";
        "attributes": Shape::Map(&Shape::Either(&[Shape::Place, Shape::List(&Shape::Place)])), ABSENT,
            "{ account: \"header['x-account']\", api_key: [\"header['x-api-key']\", \"query['key']\"] }",
            "Where attributes of your own come from: the first place that has something. Places are \
             `header['x']`, `cookie['x']`, `query['x']`, `scheme['X']` (what follows it in `Authorization`) and \
             `jwt['x']` (a claim of the verified token).";
        "jwt": Shape::Section(&JWT), Default("no token is looked at"), "{ key: jwt.pem, algorithm: RS256 }",
            "How tokens are verified. Rules then know every claim, as `jwt.sub`.";
        "timeouts": Shape::Section(&TIMEOUTS), ABSENT, "{ head: 5s, idle: 75s }",
            "How long clients may take.";
        "max_head": Shape::Size, Default("64KiB"), "32KiB",
            "The most bytes of a request's head, from 8KiB to 1MiB.";
        "access_log": Shape::Either(&[Shape::Text, Shape::Section(&ACCESS_LOG)]), Default("requests are not noted"),
            "access.log",
            "Where requests are noted: a file, or `-` for standard output.";
        "upstreams": Shape::Map(&Shape::Either(&[BUILTIN, Shape::Url, URLS, Shape::Section(&UPSTREAM)])), ABSENT,
            "{ shop: [\"http://127.0.0.1:9001\"], demo: builtin }",
            "The programs behind the gateway, by name: a URL, several, or the long form.";
        "routes": Shape::List(&Shape::Section(&ROUTE)), ABSENT, "[{ path: \"/{*rest}\", upstream: shop }]",
            "Which request goes where: the most exact host wins, then the most exact path.";
    },
};

const LISTEN: Shape = Shape::Either(&[Shape::Address, Shape::Section(&LISTENER)]);
const BUILTIN: Shape = Shape::Word(&[("builtin", "the built-in demo program")]);
const URLS: Shape = Shape::List(&Shape::Url);

/// One of `gateway.listen` in its long form.
pub(crate) static LISTENER: Section = Section {
    name: "a listener",
    doc: "An address to listen at, and what is spoken there.",
    fields: fields! {
        "address": Shape::Address, Required, "0.0.0.0:443",
            "The address.";
        "tls": Shape::Section(&TLS), Default("not encrypted"), "{ certificate: cert.pem, key: key.pem }",
            "Encrypts, by this certificate.";
        "proxy_protocol": Shape::Truth, Default("false"), "true",
            "Whether each connection begins with a PROXY line, version 1 or 2. It is believed from \
             `trusted_proxies` only; all other connections are closed.";
    },
};

/// `tls` of a listener.
pub(crate) static TLS: Section = Section {
    name: "tls",
    doc: "A certificate and its key, read again when they change; `client_ca` is read at the start.",
    fields: fields! {
        "certificate": Shape::Text, Required, "cert.pem",
            "A file with the certificate and those above it, in PEM; relative to the rule file.";
        "key": Shape::Text, Required, "key.pem",
            "A file with its private key, in PEM; relative to the rule file.";
        "client_ca": Shape::Text, Default("clients need no certificate"), "clients.pem",
            "A file with the authorities, in PEM, one of which must have signed the certificate that a client shows.";
    },
};

/// `gateway.connections`.
pub(crate) static CONNECTIONS: Section = Section {
    name: "connections",
    doc: "How many connections are held at once.",
    fields: fields! {
        "max": Shape::Count(1, U32), Default("10000"), "10000", "Connections served at once.";
        "queue": Shape::Count(0, U32), Default("500"), "500", "Connections that wait beyond those.";
        "per_client": Shape::Count(1, U32), Default("no bound"), "100", "Connections of one client address.";
    },
};

/// `gateway.jwt`.
pub(crate) static JWT: Section = Section {
    name: "jwt",
    doc: "How the token in `Authorization: Bearer` is verified. A token that is not good counts as none.",
    fields: fields! {
        "key": Shape::Text, Required, "jwt.pem",
            "A file with the public key in PEM, or with the shared secret; relative to the rule file.";
        "algorithm": Shape::Word(&[
            ("RS256", "RSA, with the public key"),
            ("RS384", "the same with SHA-384"),
            ("RS512", "the same with SHA-512"),
            ("PS256", "RSA-PSS, with the public key"),
            ("PS384", "the same with SHA-384"),
            ("PS512", "the same with SHA-512"),
            ("ES256", "the curve P-256, with the public key"),
            ("ES384", "the curve P-384, with the public key"),
            ("EdDSA", "Ed25519, with the public key"),
            ("HS256", "a shared secret of 32 bytes or more"),
            ("HS384", "a shared secret of 48 bytes or more"),
            ("HS512", "a shared secret of 64 bytes or more"),
        ]), Required, "RS256",
            "The one algorithm that is accepted.";
        "issuer": Shape::Text, Default("anybody"), "https://login.example.com",
            "Who must have issued it.";
        "audience": Shape::Text, Default("anybody"), "shop",
            "For whom it must be.";
    },
};

/// `gateway.timeouts`.
pub(crate) static TIMEOUTS: Section = Section {
    name: "timeouts",
    doc: "How long clients may take.",
    fields: fields! {
        "head": Shape::Duration, Default("10s"), "5s",
            "For a request's head, from its first byte; also for the TLS handshake and the PROXY line.";
        "idle": Shape::Duration, Default("60s"), "75s", "Between two requests of a connection.";
        "request_body": Shape::Duration, Default("30s"), "10s", "Between two parts of a request's body.";
        "send": Shape::Duration, Default("30s"), "10s", "To take the next part of an answer.";
        "stop": Shape::Duration, Default("30s"), "1m", "For requests under way to end when the gateway stops.";
    },
};

/// `gateway.access_log` in its long form.
pub(crate) static ACCESS_LOG: Section = Section {
    name: "access_log",
    doc: "Where requests are noted.",
    fields: fields! {
        "file": Shape::Text, Required, "access.log",
            "The file, relative to the rule file; `-` is standard output.";
        "format": Shape::Word(&[
            ("json", "one JSON object per line"),
            ("common", "the common log format, and behind it what was decided"),
        ]), Default("json"), "common",
            "How a line looks.";
    },
};

/// One of `gateway.upstreams` in its long form.
pub(crate) static UPSTREAM: Section = Section {
    name: "an upstream",
    doc: "A program behind the gateway.",
    fields: fields! {
        "servers": Shape::Either(&[BUILTIN, Shape::Url, URLS]), Required, "[\"http://127.0.0.1:9001\"]",
            "Where it is: base URLs, each of an equal.";
        "balance": Shape::Word(&[
            ("round_robin", "one after the other"),
            ("least_in_flight", "to the one with the fewest requests under way"),
        ]), Default("round_robin"), "least_in_flight",
            "How requests are spread over its servers.";
        "protocol": Shape::Word(&[
            ("http1", "HTTP/1.1"),
            ("http2", "HTTP/2, which gRPC needs; without TLS by prior knowledge"),
        ]), Default("http1"), "http2",
            "What is spoken with it.";
        "health": Shape::Either(&[Shape::Path, Shape::Section(&HEALTH)]), Default("its servers are not asked"),
            "/healthz",
            "How its servers are asked whether they are well.";
        "retries": Shape::Count(0, 10), Default("1"), "2",
            "On how many further servers a request may be tried, where that is safe.";
        "host": Shape::Either(&[
            Shape::Word(&[
                ("client", "the one the client asked for"),
                ("server", "the server's own, of its URL"),
            ]),
            Shape::Host,
        ]), Default("client"), "server",
            "The `Host` it is sent: one of these words, or a fixed one.";
        "connections": Shape::Count(1, U32), Default("as many as there are requests"), "100",
            "The most connections to each of its servers.";
        "ca": Shape::Text, Default("the public authorities"), "ca.pem",
            "A file with the certificates of who may vouch for it; relative to the rule file.";
        "timeouts": Shape::Section(&UPSTREAM_TIMEOUTS), ABSENT, "{ connect: 1s, answer: 10s }",
            "How long it may take.";
    },
};

/// `health` of an upstream in its long form.
pub(crate) static HEALTH: Section = Section {
    name: "health",
    doc: "How a server is asked whether it is well: `GET` must be answered with 2xx or 3xx.",
    fields: fields! {
        "path": Shape::Path, Required, "/healthz", "The path.";
        "every": Shape::Duration, Default("5s"), "10s", "How often.";
        "timeout": Shape::Duration, Default("1s"), "500ms", "How long it may take.";
        "failures": Shape::Count(1, 1000), Default("3"), "1",
            "After how many failures in a row it gets no more requests.";
        "successes": Shape::Count(1, 1000), Default("2"), "1",
            "After how many successes in a row it gets them again.";
    },
};

/// `timeouts` of an upstream.
pub(crate) static UPSTREAM_TIMEOUTS: Section = Section {
    name: "an upstream's timeouts",
    doc: "How long an upstream may take.",
    fields: fields! {
        "connect": Shape::Duration, Default("2s"), "500ms", "To connect, TLS included.";
        "answer": Shape::Duration, Default("60s"), "10s",
            "From when the request is sent until the answer's head is there.";
        "body": Shape::Duration, Default("60s"), "10s", "Between two parts of the answer's body.";
        "idle": Shape::Duration, Default("30s"), "90s", "How long an unused connection is kept.";
    },
};

/// One of `gateway.routes`.
pub(crate) static ROUTE: Section = Section {
    name: "a route",
    doc: "Which requests go where. A route without `upstream` needs `answer`.",
    fields: fields! {
        "host": Shape::HostPattern, Default("any"), "shop.example.com",
            "The host asked for; `*.` and a name stands for all below it.";
        "methods": Shape::List(&Shape::Method), Default("any"), "[GET, HEAD]",
            "The methods.";
        "path": Shape::RoutePath, Required, "\"/api/{*rest}\"",
            "The path. `{name}` stands for one segment, `{*name}` at the end for all that follows.";
        "upstream": Shape::Text, ABSENT, "shop", "The name of an upstream.";
        "strip": Shape::Path, Default("nothing"), "/api",
            "What is taken off the front of the path before it is sent on: whole segments of `path`.";
        "answer": Shape::Section(&ANSWER), ABSENT, "{ status: 200, body: pong }",
            "What is answered here, without asking an upstream.";
    },
};

/// `answer` of a route.
pub(crate) static ANSWER: Section = Section {
    name: "answer",
    doc: "What the gateway itself answers.",
    fields: fields! {
        "status": Shape::Count(200, 599), Default("200"), "404", "The HTTP status.";
        "body": Shape::Text, ABSENT, "pong", "A text.";
        "json": Shape::Json, ABSENT, "{ ok: true }", "JSON.";
        "file": Shape::Text, ABSENT, "index.html", "A file's contents; relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ cache-control: no-store }", "Further headers.";
        "redirect": Shape::Either(&[Shape::Location, Shape::Section(&ANSWER_REDIRECT)]), ABSENT, "/new",
            "Sends the client elsewhere instead.";
    },
};

/// `answer.redirect` in its long form.
pub(crate) static ANSWER_REDIRECT: Section = Section {
    name: "answer.redirect",
    doc: "Sends the client elsewhere, for now or for good.",
    fields: fields! {
        "location": Shape::Location, Required, "https://www.example.com/", "Where to.";
        "status": Shape::Count(301, 308), Default("302"), "308",
            "302, 303 or 307 for now, 301 or 308 for good.";
    },
};
