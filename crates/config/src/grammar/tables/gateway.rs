//! Grammar tables of `gateway`.

use super::super::Presence::{Default, Required};
use super::super::{Section, Shape};
use super::{ABSENT, HEADERS};

const U32: u64 = u32::MAX as u64;

/// `gateway`.
pub(crate) static GATEWAY: Section = Section {
    name: "`gateway`",
    doc: "Reverse proxy.",
    fields: fields! {
        "listen": Shape::Either(&[LISTEN, Shape::List(&LISTEN)]), Default("127.0.0.1:8080"), "0.0.0.0:8080",
            "Listen address, or a list of them.";
        "connections": Shape::Section(&CONNECTIONS), ABSENT, "{ max: 10000, queue: 500, per_client: 100 }",
            "Connection limits, checked before any request is read.";
        "max_in_flight": Shape::Count(1, U32), Default("unlimited"), "400",
            "Maximum number of requests in flight to all upstreams.";
        "threads": Shape::Count(1, 1024), Default("one per core"), "2",
            "Number of worker threads.";
        "trusted_proxies": Shape::List(&Shape::Network), Default("none"), "[10.0.0.0/8]",
            "Proxies that may report the client address, in forwarded headers and PROXY protocol headers.";
        "client_ip_header": Shape::Either(&[
            Shape::Keyword(&[
                ("x-forwarded-for", "list to which each proxy appends the address of its peer"),
                ("forwarded", "the same list in the format of RFC 7239"),
            ]),
            Shape::HeaderName,
        ]), Default("x-forwarded-for"), "x-real-ip",
            "Header in which trusted proxies report the client address; other headers are ignored. A header other than \
             these two contains a single address.";
        "attributes": Shape::Map(&Shape::Either(&[Shape::AttributeLocation, Shape::List(&Shape::AttributeLocation)])),
            ABSENT,
            "{ account: \"header['x-account']\", api_key: [\"header['x-api-key']\", \"query['key']\"] }",
            "Sources of custom attributes; the first source with a value is used. Sources are `header['x']`, \
             `cookie['x']`, `query['x']`, `scheme['X']` (the credentials after that scheme in `Authorization`) and \
             `jwt['x']` (a claim of the verified token).";
        "jwt": Shape::Section(&JWT), Default("tokens are ignored"), "{ key: jwt.pem, algorithm: RS256 }",
            "Verification of tokens. Rules can then use every claim, such as `jwt.sub`.";
        "timeouts": Shape::Section(&TIMEOUTS), ABSENT, "{ header: 5s, idle: 75s }",
            "Client timeouts.";
        "max_header_size": Shape::Size, Default("64KiB"), "32KiB",
            "Maximum size of the request line and headers, from 8KiB to 1MiB.";
        "access_log": Shape::Either(&[Shape::Text, Shape::Section(&ACCESS_LOG)]), Default("no access log"),
            "access.log",
            "Access log: a file, or `-` for standard output.";
        "upstreams": Shape::Map(&Shape::Either(&[BUILTIN, Shape::Url, URLS, Shape::Section(&UPSTREAM)])), ABSENT,
            "{ shop: [\"http://127.0.0.1:9001\"], demo: builtin }",
            "Upstreams by name: a URL, a list of URLs, or the long form.";
        "routes": Shape::List(&Shape::Section(&ROUTE)), ABSENT, "[{ path: \"/{*rest}\", upstream: shop }]",
            "Routes. The most specific host wins, then the most specific path.";
    },
};

const LISTEN: Shape = Shape::Either(&[Shape::Address, Shape::Section(&LISTENER)]);
const BUILTIN: Shape = Shape::Keyword(&[("builtin", "built-in demo application")]);
const URLS: Shape = Shape::List(&Shape::Url);

/// An entry of `gateway.listen`, long form.
pub(crate) static LISTENER: Section = Section {
    name: "a listener",
    doc: "Listen address with its protocol options.",
    fields: fields! {
        "address": Shape::Address, Required, "0.0.0.0:443",
            "Listen address.";
        "tls": Shape::Section(&TLS), Default("no TLS"), "{ certificate: cert.pem, key: key.pem }",
            "TLS for the listen address.";
        "proxy_protocol": Shape::Bool, Default("false"), "true",
            "Require a PROXY protocol header (version 1 or 2) at the start of each connection. It is accepted only \
             from `trusted_proxies`; other connections are closed.";
    },
};

/// `tls` of a listener.
pub(crate) static TLS: Section = Section {
    name: "`tls`",
    doc: "Certificate and private key, reloaded when the files change. `client_ca` is read only at startup.",
    fields: fields! {
        "certificate": Shape::Text, Required, "cert.pem",
            "PEM file with the certificate chain, relative to the rule file.";
        "key": Shape::Text, Required, "key.pem",
            "PEM file with the private key, relative to the rule file.";
        "client_ca": Shape::Text, Default("no client certificate required"), "clients.pem",
            "PEM file with CA certificates, relative to the rule file. Clients must present a certificate that one of \
             these CAs signed.";
    },
};

/// `gateway.connections`.
pub(crate) static CONNECTIONS: Section = Section {
    name: "`connections`",
    doc: "Connection limits.",
    fields: fields! {
        "max": Shape::Count(1, U32), Default("10000"), "10000", "Maximum number of connections that are served.";
        "queue": Shape::Count(0, U32), Default("500"), "500", "Maximum number of connections that wait beyond `max`.";
        "per_client": Shape::Count(1, U32), Default("unlimited"), "100",
            "Maximum number of connections per client address.";
    },
};

/// `gateway.jwt`.
pub(crate) static JWT: Section = Section {
    name: "`jwt`",
    doc: "Verification of the token in `Authorization: Bearer`. An invalid token counts as no token.",
    fields: fields! {
        "key": Shape::Text, Required, "jwt.pem",
            "File with the public key in PEM format, or with the shared secret, relative to the rule file.";
        "algorithm": Shape::Keyword(&[
            ("RS256", "RSA with SHA-256; public key"),
            ("RS384", "RSA with SHA-384; public key"),
            ("RS512", "RSA with SHA-512; public key"),
            ("PS256", "RSA-PSS with SHA-256; public key"),
            ("PS384", "RSA-PSS with SHA-384; public key"),
            ("PS512", "RSA-PSS with SHA-512; public key"),
            ("ES256", "ECDSA with the curve P-256; public key"),
            ("ES384", "ECDSA with the curve P-384; public key"),
            ("EdDSA", "Ed25519; public key"),
            ("HS256", "shared secret of at least 32 bytes"),
            ("HS384", "shared secret of at least 48 bytes"),
            ("HS512", "shared secret of at least 64 bytes"),
        ]), Required, "RS256",
            "The only accepted algorithm.";
        "issuer": Shape::Text, Default("any"), "https://login.example.com",
            "Required issuer.";
        "audience": Shape::Text, Default("any"), "shop",
            "Required audience.";
    },
};

/// `gateway.timeouts`.
pub(crate) static TIMEOUTS: Section = Section {
    name: "`timeouts`",
    doc: "Client timeouts.",
    fields: fields! {
        "header": Shape::Duration, Default("10s"), "5s",
            "Timeout for the request header, from its first byte; also for the TLS handshake and the PROXY protocol \
             header.";
        "idle": Shape::Duration, Default("60s"), "75s", "Maximum time between two requests on a connection.";
        "request_body": Shape::Duration, Default("30s"), "10s", "Maximum time between two parts of the request body.";
        "write": Shape::Duration, Default("30s"), "10s",
            "Maximum time until the client accepts the next part of the response.";
        "drain": Shape::Duration, Default("30s"), "1m", "Maximum time for requests in flight to complete on shutdown.";
    },
};

/// `gateway.access_log`, long form.
pub(crate) static ACCESS_LOG: Section = Section {
    name: "`access_log`",
    doc: "Access log.",
    fields: fields! {
        "file": Shape::Text, Required, "access.log",
            "Log file, relative to the rule file; `-` is standard output.";
        "format": Shape::Keyword(&[
            ("json", "one JSON object per line"),
            ("common", "common log format, followed by the decision"),
        ]), Default("json"), "common",
            "Line format.";
    },
};

/// An entry of `gateway.upstreams`, long form.
pub(crate) static UPSTREAM: Section = Section {
    name: "an upstream",
    doc: "Application behind the gateway, on one or several servers.",
    fields: fields! {
        "servers": Shape::Either(&[BUILTIN, Shape::Url, URLS]), Required, "[\"http://127.0.0.1:9001\"]",
            "Base URLs of the servers. All servers must be equivalent.";
        "balance": Shape::Keyword(&[
            ("round_robin", "the servers one after the other"),
            ("least_in_flight", "the server with the fewest requests in flight"),
        ]), Default("round_robin"), "least_in_flight",
            "Load balancing over the servers.";
        "protocol": Shape::Keyword(&[
            ("http1", "HTTP/1.1"),
            ("http2", "HTTP/2, required for gRPC; without TLS by prior knowledge"),
        ]), Default("http1"), "http2",
            "Protocol of the upstream.";
        "health": Shape::Either(&[Shape::Path, Shape::Section(&HEALTH)]), Default("no health checks"),
            "/healthz",
            "Health check of the servers.";
        "retries": Shape::Count(0, 10), Default("1"), "2",
            "Maximum number of other servers on which a request is retried, if that is safe.";
        "host": Shape::Either(&[
            Shape::Keyword(&[
                ("client", "the host that the client requested"),
                ("server", "the host in the URL of the server"),
            ]),
            Shape::Host,
        ]), Default("client"), "server",
            "`Host` header that is sent to the upstream: one of these keywords, or a fixed host.";
        "max_connections": Shape::Count(1, U32), Default("unlimited"), "100",
            "Maximum number of connections to each server.";
        "ca": Shape::Text, Default("public CAs"), "ca.pem",
            "PEM file with the trusted CA certificates, relative to the rule file.";
        "timeouts": Shape::Section(&UPSTREAM_TIMEOUTS), ABSENT, "{ connect: 1s, response: 10s }",
            "Upstream timeouts.";
    },
};

/// `health` of an upstream, long form.
pub(crate) static HEALTH: Section = Section {
    name: "`health`",
    doc: "Health check of a server: a `GET` request must return 2xx or 3xx.",
    fields: fields! {
        "path": Shape::Path, Required, "/healthz", "Path of the request.";
        "interval": Shape::Duration, Default("5s"), "10s", "Interval between checks.";
        "timeout": Shape::Duration, Default("1s"), "500ms", "Timeout of a check.";
        "failures": Shape::Count(1, 1000), Default("3"), "1",
            "Number of consecutive failures after which the server receives no requests.";
        "successes": Shape::Count(1, 1000), Default("2"), "1",
            "Number of consecutive successes after which it receives requests again.";
    },
};

/// `timeouts` of an upstream.
pub(crate) static UPSTREAM_TIMEOUTS: Section = Section {
    name: "upstream timeouts",
    doc: "Timeouts for requests to an upstream.",
    fields: fields! {
        "connect": Shape::Duration, Default("2s"), "500ms", "Timeout for the connection, including the TLS handshake.";
        "response": Shape::Duration, Default("60s"), "10s",
            "Timeout for the response header, after the request is sent.";
        "body": Shape::Duration, Default("60s"), "10s", "Maximum time between two parts of the response body.";
        "idle": Shape::Duration, Default("30s"), "90s", "Maximum time that an idle connection is kept.";
    },
};

/// An entry of `gateway.routes`.
pub(crate) static ROUTE: Section = Section {
    name: "a route",
    doc: "Selects requests, and forwards them with `upstream` or responds with `respond`.",
    fields: fields! {
        "host": Shape::HostPattern, Default("any"), "shop.example.com",
            "Requested host; `*.` followed by a domain matches all its subdomains.";
        "methods": Shape::List(&Shape::Method), Default("any"), "[GET, HEAD]",
            "Request methods.";
        "path": Shape::RoutePath, Required, "\"/api/{*rest}\"",
            "Path. `{name}` matches one segment, `{*name}` at the end matches all remaining segments.";
        "upstream": Shape::Text, ABSENT, "shop", "Name of an upstream.";
        "strip_prefix": Shape::Path, Default("none"), "/api",
            "Leading segments of `path` that are removed before the request is forwarded.";
        "respond": Shape::Section(&RESPONSE), ABSENT, "{ status: 200, body: pong }",
            "Response of the gateway itself, without an upstream.";
    },
};

/// `respond` of a route.
pub(crate) static RESPONSE: Section = Section {
    name: "`respond`",
    doc: "Response of the gateway itself.",
    fields: fields! {
        "status": Shape::Count(200, 599), Default("200"), "404", "HTTP status.";
        "body": Shape::Text, ABSENT, "pong", "Text body.";
        "json": Shape::Json, ABSENT, "{ ok: true }", "JSON body.";
        "file": Shape::Text, ABSENT, "index.html", "File with the body, relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ cache-control: no-store }", "Additional headers.";
        "redirect": Shape::Either(&[Shape::Location, Shape::Section(&RESPONSE_REDIRECT)]), ABSENT, "/new",
            "Redirect the client instead.";
    },
};

/// `respond.redirect`, long form.
pub(crate) static RESPONSE_REDIRECT: Section = Section {
    name: "`respond.redirect`",
    doc: "Temporary or permanent redirect.",
    fields: fields! {
        "location": Shape::Location, Required, "https://www.example.com/", "Target of the redirect.";
        "status": Shape::Count(301, 308), Default("302"), "308",
            "HTTP status: 302, 303 or 307 for a temporary redirect, 301 or 308 for a permanent one.";
    },
};
