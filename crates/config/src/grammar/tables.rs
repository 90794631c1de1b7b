//! Grammar tables. Their descriptions are shown to users in the reference and the schema.

use super::Presence::{Default, Required};
use super::{Section, Shape, SignalUnit};

/// Declares the fields of a [`Section`]: `"name": shape, presence, "example", "description";` for each field.
#[macro_export]
#[doc(hidden)]
macro_rules! fields {
    ($($name:literal: $shape:expr, $presence:expr, $example:literal, $doc:literal;)*) => {
        &[$($crate::GrammarField { name: $name, doc: $doc, shape: $shape, presence: $presence, example: $example }),*]
    };
}
pub use crate::fields;

mod algorithms;
mod gateway;

pub(crate) use algorithms::ALGORITHMS;
use gateway::GATEWAY;

/// Optional without a default value.
pub const ABSENT: super::Presence = Default("");
const ANY: u64 = u64::MAX;

/// Rules in a shared store; per-process settings stay in each process's file.
pub(crate) static SHARED: Section = Section {
    name: "the shared rules",
    doc: "Rules and lists in the store. All other settings are in the file of each process.",
    fields: fields! {
        "rules": Shape::List(&Shape::Section(&RULE)), Default("no rules"), "[{ name: total, limits: [1000/s] }]",
            "Rules.";
        "lists": Shape::Section(&LISTS), ABSENT, "{ deny: [\"account == 'mallory'\"] }",
            "Lists.";
    },
};

/// The root of the file.
pub(crate) static FILE: Section = Section {
    name: "the rule file",
    doc: "A rule file. All sections are optional.",
    fields: fields! {
        "rules": Shape::List(&Shape::Section(&RULE)), Default("no rules"), "[{ name: total, limits: [1000/s] }]",
            "Rules. A request must pass every rule that matches it.";
        "lists": Shape::Section(&LISTS), ABSENT, "{ deny: [\"account == 'mallory'\"] }",
            "Allow and deny lists, checked before all rules.";
        "store": STORE_SHAPE, Default("memory"), "redis://127.0.0.1:6379",
            "Store for the counts of rules with `scope: cluster`.";
        "headers": Shape::Keyword(&[
            ("ietf", "`RateLimit` and `RateLimit-Policy` (the IETF draft)"),
            ("legacy", "`RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`"),
            ("x", "`X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`"),
            ("none", "no rate limit headers"),
        ]), Default("ietf"), "legacy",
            "Response headers that report the remaining quota.";
        "memory": Shape::Size, Default("256MiB"), "1GiB",
            "Maximum memory for all keys. Rules with a key share it evenly.";
        "gateway": Shape::Section(&GATEWAY), ABSENT, "{ listen: 127.0.0.1:8080 }",
            "Reverse proxy.";
        "server": Shape::Section(&SERVER), ABSENT, "{ http: 127.0.0.1:8082 }",
            "Decision server.";
        "admin": Shape::Section(&ADMIN), ABSENT, "{ listen: 127.0.0.1:9900 }",
            "Dashboard, metrics and admin API.";
        "rules_from": Shape::Keyword(&[
            ("file", "this file"),
            ("store", "the store; all its processes use the same version, and this file is the first version"),
        ]), Default("file"), "store",
            "Source of rules and lists.";
        "watch": Shape::Bool, Default("true"), "false",
            "Reload rules and lists when the file changes.";
        "log": Shape::Section(&LOG), ABSENT, "{ format: json }",
            "Process log on standard error.";
    },
};

/// `log`.
pub(crate) static LOG: Section = Section {
    name: "`log`",
    doc: "Process log on standard error. Refusals are sampled: one line per second and rule, with the number of \
          refusals it stands for.",
    fields: fields! {
        "format": Shape::Keyword(&[
            ("text", "human-readable text"),
            ("json", "one JSON object per line"),
        ]), Default("text"), "json",
            "Line format.";
        "level": Shape::Keyword(&[
            ("error", "failures"),
            ("warn", "also conditions that need attention"),
            ("info", "also normal events and sampled refusals"),
            ("debug", "also details for troubleshooting"),
        ]), Default("info"), "warn",
            "Log level.";
    },
};

const STORE_SHAPE: Shape = Shape::Either(&[Shape::Store, Shape::Section(&STORE)]);

/// `store`, long form.
pub(crate) static STORE: Section = Section {
    name: "`store`",
    doc: "Redis or Valkey store that several processes share.",
    fields: fields! {
        "url": Shape::Store, Required, "redis+sentinel://a,b,c/mymaster",
            "Server URL: `redis://`, `redis+sentinel://` or `redis+cluster://`, with `rediss` for TLS.";
        "timeout": Shape::Duration, Default("20ms"), "50ms",
            "Maximum time that a decision waits for the store. After it, the rule's `on_store_failure` applies.";
        "prefix": Shape::Text, Default("sluicegate"), "shop",
            "Prefix of all keys in the store. Processes with the same prefix share their counts.";
        "expected_nodes": Shape::Count(1, 100_000), Default("2"), "4",
            "Number of processes that `local_share` assumes until the store reports the actual number.";
        "permit_ttl": Shape::Duration, Default("30s"), "10s",
            "Time after which the permits of a process that no longer renews them are released.";
        "ca": Shape::Text, Default("public CAs"), "/etc/ssl/redis-ca.pem",
            "PEM file with the trusted CA certificates, relative to the rule file.";
    },
};

/// `lists`.
pub(crate) static LISTS: Section = Section {
    name: "`lists`",
    doc: "Conditions that are checked before all rules. `allow` takes precedence over `deny`.",
    fields: fields! {
        "allow": Shape::List(&Shape::Condition), ABSENT, "[\"client.ip in 10.1.0.0/16\"]",
            "Requests that match one of these conditions are admitted, regardless of the deny list and the rules.";
        "deny": Shape::List(&Shape::Condition), ABSENT, "[\"account == 'mallory'\"]",
            "Requests that match one of these conditions are refused, unless the allow list admits them.";
    },
};

/// An entry of `rules`.
pub(crate) static RULE: Section = Section {
    name: "a rule",
    doc: "A rule selects requests, counts them per key, and applies limits.",
    fields: fields! {
        "name": Shape::Name, Required, "per-ip",
            "Name, unique in the file. A rule that keeps its name keeps its counts when the file changes.";
        "direction": Shape::Keyword(&[
            ("inbound", "requests that arrive"),
            ("outbound", "requests that this program sends"),
            ("descriptor", "descriptors that a proxy sends to the decision server; the domain is the service"),
        ]),
            Default("inbound; outbound with `match: calls-to ...`"), "outbound",
            "Kind of traffic that the rule applies to.";
        "match": Shape::Target, Default("all requests"), "POST /api/orders",
            "Requests that the rule applies to: methods, host, path pattern or service.";
        "when": Shape::Condition, Default("always"), "\"header['x-tier'] != 'vip'\"",
            "Additional condition on the attributes of the request.";
        "key": Shape::Either(&[KEY_PART, Shape::List(&KEY_PART)]), Default("one count for all requests"), "client.ip",
            "Attribute, or list of attributes, whose values are counted separately.";
        "limits": Shape::List(&LIMIT), Default("none; only with `adaptive`"), "[300/1m, 100/5s]",
            "Limits. A request must fit all of them; it consumes from all limits or from none.";
        "cost": Shape::Either(&[Shape::Count(1, ANY), Shape::Attribute, Shape::Section(&COST)]),
            Default("1"), "header['x-tokens']",
            "Cost of a request: a number, an attribute that contains it, or an estimate that is settled later.";
        "ban": Shape::Section(&BAN), Default("no bans"), "{ after: 3 refusals in 1m, for: 10m }",
            "Ban a key after repeated refusals.";
        "priority": Shape::Keyword(&[
            ("vip", "admitted first"),
            ("normal", "requests without another priority"),
            ("background", "shed first"),
        ]), Default("normal"), "background",
            "Priority of the matching requests under overload.";
        "mode": Shape::Keyword(&[
            ("enforce", "refuse requests over the limit"),
            ("shadow", "count and report, but never refuse"),
        ]), Default("enforce"), "shadow",
            "Enforcement mode.";
        "scope": Shape::Keyword(&[
            ("local", "each process counts separately"),
            ("cluster", "all processes on the same store share the counts"),
        ]), Default("local"), "cluster",
            "Scope of the counts.";
        "cluster": Shape::Section(&CLUSTER), ABSENT, "{ mode: lease, on_store_failure: local_share }",
            "Settings for shared counts; only with `scope: cluster`.";
        "on_limit": Shape::Section(&ON_LIMIT), Default("refuse with status 429"), "{ status: 503, body: later }",
            "Action for requests over the limit.";
        "max_keys": Shape::Count(1, 1 << 32), Default("the rule's share of `memory`"), "100000",
            "Maximum number of keys in memory.";
        "adaptive": Shape::Either(&[
            Shape::Keyword(&[
                ("auto", "self-tuning limit for requests in flight"),
                ("cpu", "rate limit that protects the CPU"),
            ]),
            Shape::OneOf(ADAPTIVES),
        ]), ABSENT, "{ when: { cpu: \"> 85%\" }, limit: 100/s }",
            "Overload protection for all requests of the rule together.";
    },
};

const KEY_PART: Shape = Shape::Either(&[Shape::Attribute, Shape::Section(&KEY)]);

/// A key part, long form.
pub(crate) static KEY: Section = Section {
    name: "a key",
    doc: "Attribute with the prefix lengths that combine addresses into one client.",
    fields: fields! {
        "attribute": Shape::Attribute, Required, "client.ip",
            "Attribute.";
        "ipv6_prefix": Shape::Count(1, 128), Default("64"), "56",
            "Prefix length in bits; IPv6 addresses with the same prefix count as one client.";
        "ipv4_prefix": Shape::Count(1, 32), Default("32"), "24",
            "Prefix length in bits; IPv4 addresses with the same prefix count as one client.";
    },
};

/// `cost`, long form.
pub(crate) static COST: Section = Section {
    name: "a cost",
    doc: "Cost that is known only when the request ends, such as the tokens of a language model.",
    fields: fields! {
        "estimate": Shape::Count(1, ANY), Required, "4000",
            "Amount that is reserved when the request arrives. When the request ends, the actual cost replaces it.";
        "actual": Shape::ActualCost, Default("reported"), "response.json['usage.total_tokens']",
            "Source of the actual cost: `reported` (by the program that serves the request), `request.bytes`, \
             `response.bytes`, `response.header['x']` or `response.json['a.b']`.";
    },
};

/// An entry of `limits`.
pub const LIMIT: Shape = Shape::Either(&[Shape::Rate, Shape::OneOf(ALGORITHMS)]);

/// `ban`.
pub(crate) static BAN: Section = Section {
    name: "`ban`",
    doc: "Bans a key for some time after a number of refusals.",
    fields: fields! {
        "after": Shape::Either(&[Shape::Refusals, Shape::Count(1, u32::MAX as u64)]), Required, "3 refusals in 1m",
            "Number of refusals that leads to a ban, and the period in which they occur.";
        "within": Shape::Duration, Default("the period in `after`"), "1m",
            "Period in which the refusals occur, if `after` is only a number.";
        "for": Shape::Duration, Required, "10m",
            "Duration of the ban.";
    },
};

/// `cluster`.
pub(crate) static CLUSTER: Section = Section {
    name: "`cluster`",
    doc: "Settings for counts that all processes on the store share.",
    fields: fields! {
        "mode": Shape::Keyword(&[
            ("exact", "the store decides each request"),
            ("lease", "processes acquire leases on parts of the limit and decide locally"),
        ]), Default("exact"), "lease",
            "Use of the store.";
        "on_store_failure": Shape::Keyword(&[
            ("open", "admit all requests"),
            ("closed", "refuse all requests"),
            ("local_share", "each process enforces its share of the limit"),
        ]), Default("local_share"), "open",
            "Behaviour while the store is unavailable.";
    },
};

const HEADERS: Shape = Shape::Map(&Shape::HeaderValue);
const REDIRECT_SHAPE: Shape = Shape::Either(&[Shape::Location, Shape::Section(&REDIRECT)]);

/// `on_limit`.
pub(crate) static ON_LIMIT: Section = Section {
    name: "`on_limit`",
    doc: "Action for requests over the limit: wait in a queue, then refuse, degrade or redirect.",
    fields: fields! {
        "queue": Shape::Section(&QUEUE), Default("no queue"), "{ max_wait: 500ms, max_waiting: 1000 }",
            "Queue requests first, within these bounds.";
        "then": Shape::Section(&THEN), Default("the other fields of `on_limit`"), "{ status: 429, body: busy }",
            "Reply to requests that cannot wait in the queue.";
        "status": Shape::Count(400, 599), Default("429"), "503", "HTTP status of the refusal.";
        "body": Shape::Text, ABSENT, "\"busy, please retry\"", "Text body of the refusal.";
        "json": Shape::Json, ABSENT, "{ error: busy }", "JSON body of the refusal.";
        "file": Shape::Text, ABSENT, "busy.html", "File with the body of the refusal, relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ retry-after: 5 }", "Additional headers of the refusal.";
        "degrade": Shape::Section(&DEGRADE), ABSENT, "{ status: 200, json: { items: [] } }",
            "Respond with substitute data instead.";
        "redirect": REDIRECT_SHAPE, ABSENT, "/busy", "Redirect the client instead.";
    },
};

/// `on_limit.then`.
pub(crate) static THEN: Section = Section {
    name: "`then`",
    doc: "Reply to requests that cannot wait in the queue.",
    fields: fields! {
        "status": Shape::Count(400, 599), Default("429"), "503", "HTTP status of the refusal.";
        "body": Shape::Text, ABSENT, "\"busy, please retry\"", "Text body of the refusal.";
        "json": Shape::Json, ABSENT, "{ error: busy }", "JSON body of the refusal.";
        "file": Shape::Text, ABSENT, "busy.html", "File with the body of the refusal, relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ retry-after: 5 }", "Additional headers of the refusal.";
        "degrade": Shape::Section(&DEGRADE), ABSENT, "{ status: 200, json: { items: [] } }",
            "Respond with substitute data instead.";
        "redirect": REDIRECT_SHAPE, ABSENT, "/busy", "Redirect the client instead.";
    },
};

/// `on_limit.queue`.
pub(crate) static QUEUE: Section = Section {
    name: "`queue`",
    doc: "Bounds of the wait queue.",
    fields: fields! {
        "max_wait": Shape::Duration, Required, "500ms",
            "Maximum wait. A request that would have to wait longer is refused immediately.";
        "max_waiting": Shape::Count(1, u32::MAX as u64), Default("1000"), "1000",
            "Maximum number of waiting requests per key.";
    },
};

/// `on_limit.degrade`.
pub(crate) static DEGRADE: Section = Section {
    name: "`degrade`",
    doc: "Substitute response, sent instead of a refusal.",
    fields: fields! {
        "status": Shape::Count(200, 599), Default("200"), "200", "HTTP status.";
        "body": Shape::Text, ABSENT, "\"\"", "Text body.";
        "json": Shape::Json, ABSENT, "{ items: [] }", "JSON body.";
        "file": Shape::Text, ABSENT, "empty.html", "File with the body, relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ x-degraded: \"yes\" }", "Additional headers.";
    },
};

/// `on_limit.redirect`.
pub(crate) static REDIRECT: Section = Section {
    name: "`redirect`",
    doc: "Temporary redirect.",
    fields: fields! {
        "location": Shape::Location, Required, "https://status.example.com/", "Target of the redirect.";
        "status": Shape::Count(302, 307), Default("302"), "307", "HTTP status: 302, 303 or 307.";
    },
};

/// Map forms of `adaptive`. The first field of each selects the form.
pub(crate) static ADAPTIVES: &[&Section] = &[&ADAPTIVE, &ADAPTIVE_AUTO, &ADAPTIVE_CPU];

/// `adaptive`, with conditions.
pub(crate) static ADAPTIVE: Section = Section {
    name: "`adaptive`",
    doc: "Rate limit for all requests of the rule together that applies only while the process is overloaded.",
    fields: fields! {
        "when": Shape::Section(&SIGNALS), Required, "{ load5: \"> 4\", avg_rt: \"> 100ms\" }",
            "Signals that indicate overload.";
        "require": Shape::Keyword(&[
            ("all", "all signals together"),
            ("any", "at least one signal"),
        ]), Default("all"), "any", "Number of signals that must hold.";
        "limit": Shape::Ceiling, Required, "100/s",
            "Limit during overload, in addition to the rule's own limits: a rate, or a percentage of the highest \
             recent throughput.";
        "enter_after": Shape::Duration, Default("750ms"), "2s",
            "Time that the signals must hold before the limit applies.";
        "exit_after": Shape::Duration, Default("2s"), "10s",
            "Time that the signals must be past their exit values before the limit is raised.";
        "hold": Shape::Duration, Default("2s"), "5s", "Minimum time that the limit applies.";
        "recovery": Shape::Percentage, Default("10%"), "25%",
            "Increase of the limit per second after the overload, until it no longer restricts any request.";
    },
};

/// `adaptive: { auto: … }`.
pub(crate) static ADAPTIVE_AUTO: Section = Section {
    name: "`adaptive` with `auto`",
    doc: "Self-tuning limit for requests in flight.",
    fields: fields! {
        "auto": Shape::Section(&AUTO), Required, "{ max: 500 }",
            "Bounds of the limit.";
    },
};

/// `auto`.
pub(crate) static AUTO: Section = Section {
    name: "`auto`",
    doc: "Bounds of the self-tuning limit and of its wait queue.",
    fields: fields! {
        "min": Shape::Count(1, 1_000_000), Default("2"), "10", "Minimum of the limit.";
        "max": Shape::Count(1, 1_000_000), Default("10000"), "500", "Maximum of the limit.";
        "start": Shape::Count(1, 1_000_000), Default("20, within `min` and `max`"), "50", "Initial limit.";
        "max_rt": Shape::Duration, Default("none"), "500ms",
            "Response time that always counts as overload.";
        "max_wait": Shape::Duration, Default("12 times the unloaded response time, from 100ms to 1.2s"), "50ms",
            "Maximum wait in the queue.";
        "max_waiting": Shape::Count(0, 1_000_000), Default("1000"), "100",
            "Maximum number of requests in the queue.";
    },
};

/// `adaptive: { cpu: … }`.
pub(crate) static ADAPTIVE_CPU: Section = Section {
    name: "`adaptive` with `cpu`",
    doc: "Rate limit that protects the CPU, computed from the measured CPU time per request.",
    fields: fields! {
        "cpu": Shape::Section(&CPU_GUARD), Required, "{ target: 80% }",
            "Target and threshold of the CPU usage.";
    },
};

/// `cpu`.
pub(crate) static CPU_GUARD: Section = Section {
    name: "`cpu`",
    doc: "Target and threshold of the CPU usage.",
    fields: fields! {
        "target": Shape::Percentage, Default("80%"), "70%", "Target CPU usage.";
        "threshold": Shape::Percentage, Default("85%"), "90%",
            "The limit applies only while the CPU usage exceeds this value, tasks wait for a CPU, or the cgroup is \
             throttled.";
    },
};

/// `adaptive.when`.
pub(crate) static SIGNALS: Section = Section {
    name: "`adaptive.when`",
    doc: "Signals, each compared with a value by `>`, `>=`, `<` or `<=`. A signal that cannot be read does not hold.",
    fields: fields! {
        "load1": NUMBER, ABSENT, "\"> 4\"", "Load average of the host over one minute.";
        "load5": NUMBER, ABSENT, "\"> 4\"", "Load average of the host over five minutes.";
        "load_per_core": NUMBER, ABSENT, "\"> 1.5\"",
            "Load average over one minute, divided by the number of cores available to the process.";
        "cpu": PERCENT, ABSENT, "\"> 85%\"",
            "CPU usage, relative to the CPU time available to the process. In a cgroup, both are those of the cgroup.";
        "host_cpu": PERCENT, ABSENT, "\"> 85%\"", "CPU usage of the host.";
        "cpu_pressure": PERCENT, ABSENT, "\"> 20%\"", "Percentage of time in which tasks waited for a CPU.";
        "cpu_throttled": PERCENT, ABSENT, "\"> 10%\"",
            "Percentage of scheduling periods in which the cgroup was throttled.";
        "memory": PERCENT, ABSENT, "\"> 90%\"", "Memory usage, relative to the memory available to the process.";
        "avg_rt": TIME, ABSENT, "\"> 100ms\"", "Average response time of the rule's requests in the last second.";
        "p50_rt": TIME, ABSENT, "\"> 50ms\"", "Median of these response times.";
        "p90_rt": TIME, ABSENT, "\"> 200ms\"", "90th percentile of these response times.";
        "p99_rt": TIME, ABSENT, "\"> 500ms\"", "99th percentile of these response times.";
        "in_flight": NUMBER, ABSENT, "\"> 50\"", "Requests of the rule in flight.";
        "qps": NUMBER, ABSENT, "\"> 1000\"", "Requests of the rule per second, including refused ones.";
        "connections": NUMBER, ABSENT, "\"> 5000\"", "Open connections.";
        "traffic": BYTES, ABSENT, "\"> 50MiB/s\"", "Bytes received and sent per second, without loopback traffic.";
    },
};

const NUMBER: Shape = Shape::Either(&[Shape::Comparison(SignalUnit::Number), Shape::Section(&CONDITION)]);
const PERCENT: Shape = Shape::Either(&[Shape::Comparison(SignalUnit::Percent), Shape::Section(&CONDITION)]);
const TIME: Shape = Shape::Either(&[Shape::Comparison(SignalUnit::Time), Shape::Section(&CONDITION)]);
const BYTES: Shape = Shape::Either(&[Shape::Comparison(SignalUnit::BytesPerSecond), Shape::Section(&CONDITION)]);

/// A signal, long form.
pub(crate) static CONDITION: Section = Section {
    name: "a signal",
    doc: "Signal with its exit value and duration.",
    fields: fields! {
        "enter": Shape::Comparison(SignalUnit::Inherited), Required, "\"> 50\"",
            "Value at which the signal starts holding.";
        "exit": Shape::Comparison(SignalUnit::Inherited),
            Default("80% of `enter`; 125% if `enter` uses `<`"), "\"< 30\"",
            "Value at which the signal stops holding.";
        "for": Shape::Duration, Default("`enter_after`"), "5s", "Time that this signal must hold.";
    },
};

/// `server`.
pub(crate) static SERVER: Section = Section {
    name: "`server`",
    doc: "Decision server. A protocol is enabled if it has an address or a Unix socket.",
    fields: fields! {
        "rls": SERVICE_SHAPE, Default("off"), "127.0.0.1:8081", "Envoy rate limit service (gRPC).";
        "http": SERVICE_SHAPE, Default("off"), "127.0.0.1:8082", "Decisions over HTTP.";
        "resp": SERVICE_SHAPE, Default("off"), "127.0.0.1:6380", "Decisions over the Redis protocol.";
        "ratelimit_dir": Shape::Text, Default("none"), "ratelimit/config",
            "Directory with envoyproxy/ratelimit files, relative to the rule file. They decide the descriptors of \
             their domains; rules with `direction: descriptor` decide those of other domains.";
        "connections": Shape::Section(&gateway::CONNECTIONS), ABSENT, "{ max: 10000, per_client: 100 }",
            "Connection limits over all protocols.";
        "threads": Shape::Count(1, 1024), Default("one per core"), "2",
            "Number of worker threads.";
        "busy_poll": Shape::Duration, Default("off"), "50us",
            "Time that a thread polls for more work before it sleeps, at most 1ms. Polling reduces latency on machines \
             with spare cores; these cores appear busy.";
        "trusted_proxies": Shape::List(&Shape::Network), Default("loopback: 127.0.0.0/8 and ::1"), "[10.0.0.0/8]",
            "Forward-auth proxies that may report the client address.";
        "max_request_size": Shape::Size, Default("1MiB"), "64KiB",
            "Maximum size of a request, from 1KiB to 64MiB.";
        "max_checks": Shape::Count(1, 100_000), Default("1000"), "100",
            "Maximum number of checks or descriptors per request.";
        "max_reservations": Shape::Count(1, u32::MAX as u64), Default("100000"), "10000",
            "Maximum number of reservations and permits that are held for clients.";
        "max_keys": Shape::Count(1, u32::MAX as u64), Default("1000000"), "100000",
            "Maximum number of keys of limits that calls define themselves: CL.THROTTLE and Envoy overrides. Memory is \
             allocated at the first such call.";
        "timeouts": Shape::Section(&gateway::TIMEOUTS), ABSENT, "{ idle: 1h }",
            "Client timeouts. The default of `idle` is 1h, because clients keep their connections.";
        "shutdown_delay": Shape::Duration, Default("0s"), "5s",
            "Time that the server continues to serve, new connections included, after a stop signal, while health \
             checks report the shutdown. Load balancers need this time to use other servers. A restart does not wait.";
    },
};

const SERVICE_SHAPE: Shape = Shape::Either(&[Shape::Address, Shape::Section(&SERVICE)]);

/// A protocol of `server`, long form.
pub(crate) static SERVICE: Section = Section {
    name: "a service",
    doc: "Listener and authentication of one protocol of the decision server.",
    fields: fields! {
        "address": Shape::Address, Default("only `unix`"), "0.0.0.0:8081",
            "Listen address.";
        "unix": Shape::Text, Default("no Unix socket"), "/run/sluicegate/rls.sock",
            "Path of a Unix socket to listen on, relative to the rule file.";
        "tls": Shape::Section(&gateway::TLS), Default("no TLS"), "{ certificate: cert.pem, key: key.pem }",
            "TLS for the listen address.";
        "secret_file": Shape::Text, Default("no authentication"), "secret.txt",
            "File with the secret that clients must send, relative to the rule file: a bearer token over HTTP and \
             gRPC, the password of AUTH over the Redis protocol.";
    },
};

/// `admin`.
pub(crate) static ADMIN: Section = Section {
    name: "`admin`",
    doc: "Dashboard, metrics and admin API.",
    fields: fields! {
        "listen": Shape::Address, Default("127.0.0.1:9900"), "127.0.0.1:9900",
            "Listen address, preferably on the loopback interface.";
        "token_file": Shape::Text, Default("read access from this host, no write access"), "tokens.txt",
            "File with one token per line, relative to the rule file: `NAME TOKEN`, or `NAME TOKEN read` for read-only \
             access. Changes are recorded with the name.";
        "tls": Shape::Section(&gateway::TLS), Default("no TLS"), "{ certificate: cert.pem, key: key.pem }",
            "TLS for the listen address.";
        "otlp": Shape::Either(&[Shape::Url, Shape::Section(&OTLP)]), Default("no push, only /metrics"),
            "http://127.0.0.1:4318",
            "OpenTelemetry collector to push metrics to, by OTLP over HTTP.";
    },
};

/// `admin.otlp`, long form.
pub(crate) static OTLP: Section = Section {
    name: "`otlp`",
    doc: "OpenTelemetry collector to push metrics to.",
    fields: fields! {
        "endpoint": Shape::Url, Required, "http://127.0.0.1:4318",
            "URL of its OTLP endpoint over HTTP.";
        "interval": Shape::Duration, Default("10s"), "1m",
            "Interval between pushes.";
    },
};

/// All sections, in reference order.
pub(crate) fn sections() -> impl Iterator<Item = &'static Section> {
    [BEFORE_ALGORITHMS, ALGORITHMS, AFTER_ALGORITHMS].into_iter().flatten().copied()
}

const BEFORE_ALGORITHMS: &[&Section] = &[&FILE, &RULE, &KEY, &COST];

const AFTER_ALGORITHMS: &[&Section] = &[
    &BAN,
    &CLUSTER,
    &STORE,
    &ON_LIMIT,
    &THEN,
    &QUEUE,
    &DEGRADE,
    &REDIRECT,
    &ADAPTIVE,
    &SIGNALS,
    &CONDITION,
    &ADAPTIVE_AUTO,
    &AUTO,
    &ADAPTIVE_CPU,
    &CPU_GUARD,
    &LISTS,
    &GATEWAY,
    &gateway::LISTENER,
    &gateway::TLS,
    &gateway::CONNECTIONS,
    &gateway::JWT,
    &gateway::TIMEOUTS,
    &gateway::ACCESS_LOG,
    &gateway::UPSTREAM,
    &gateway::HEALTH,
    &gateway::UPSTREAM_TIMEOUTS,
    &gateway::ROUTE,
    &gateway::RESPONSE,
    &gateway::RESPONSE_REDIRECT,
    &SERVER,
    &SERVICE,
    &ADMIN,
    &OTLP,
    &LOG,
];
