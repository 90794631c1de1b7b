//! The tables. Read them as the rule file's reference; the prose is shown to users as it stands.

use super::Presence::{Default, Required};
use super::{Field, Section, Shape, Unit};

macro_rules! fields {
    ($($name:literal: $shape:expr, $presence:expr, $example:literal, $doc:literal;)*) => {
        &[$(Field { name: $name, doc: $doc, shape: $shape, presence: $presence, example: $example }),*]
    };
}
pub(crate) use fields;

mod gateway;

use gateway::GATEWAY;

/// No default worth a word: the thing is just not there.
pub(crate) const ABSENT: super::Presence = Default("");
const ANY: u64 = u64::MAX;

/// Rules as they live in a store: what differs from process to process stands in the file of each.
pub(crate) static SHARED: Section = Section {
    name: "the fleet's rules",
    doc: "Rules and lists that live in the store. Everything else stands in the file of each process.",
    fields: fields! {
        "rules": Shape::List(&Shape::Section(&RULE)), Default("no rules"), "[{ name: total, limits: [1000/s] }]",
            "The rules.";
        "lists": Shape::Section(&LISTS), ABSENT, "{ deny: [\"account == 'mallory'\"] }",
            "The lists.";
    },
};

/// The whole file.
pub(crate) static FILE: Section = Section {
    name: "the file",
    doc: "A rule file. Every section may be left out.",
    fields: fields! {
        "rules": Shape::List(&Shape::Section(&RULE)), Default("no rules"), "[{ name: total, limits: [1000/s] }]",
            "The rules. A request must pass all that match it.";
        "lists": Shape::Section(&LISTS), ABSENT, "{ deny: [\"account == 'mallory'\"] }",
            "Who is let through, or shut out, before any rule is asked.";
        "store": STORE_SHAPE, Default("memory"), "redis://127.0.0.1:6379",
            "Where rules with `scope: cluster` keep their counts.";
        "headers": Shape::Word(&[
            ("ietf", "`RateLimit` and `RateLimit-Policy` (the IETF draft)"),
            ("legacy", "`RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`"),
            ("x", "`X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`"),
            ("none", "no such headers"),
        ]), Default("ietf"), "legacy",
            "Which headers tell clients what is left to them.";
        "memory": Shape::Size, Default("256MiB"), "1GiB",
            "The most memory all keys together may take; keyed rules share it evenly.";
        "gateway": Shape::Section(&GATEWAY), ABSENT, "{ listen: 127.0.0.1:8080 }",
            "The reverse proxy.";
        "server": Shape::Section(&SERVER), ABSENT, "{ http: 127.0.0.1:8082 }",
            "The decision server.";
        "admin": Shape::Section(&ADMIN), ABSENT, "{ listen: 127.0.0.1:9900 }",
            "Dashboard, metrics and admin API.";
        "rules_from": Shape::Word(&[
            ("file", "they are those of this file"),
            ("store", "all processes on the store have the same, and change together; those of this file are the first version"),
        ]), Default("file"), "store",
            "Where rules and lists live.";
        "watch": Shape::Truth, Default("true"), "false",
            "Whether rules and lists are read again when the file changes.";
        "log": Shape::Section(&LOG), ABSENT, "{ format: json }",
            "What the program says of itself, on standard error.";
    },
};

/// `log`.
pub(crate) static LOG: Section = Section {
    name: "log",
    doc: "What the program says of itself, on standard error. Refusals are sampled: a line a second for each rule, with how many it stands for.",
    fields: fields! {
        "format": Shape::Word(&[
            ("text", "for people"),
            ("json", "one JSON object a line"),
        ]), Default("text"), "json",
            "How lines look.";
        "level": Shape::Word(&[
            ("error", "what failed"),
            ("warn", "also what should be looked at"),
            ("info", "also what happens, and what is refused, sampled"),
            ("debug", "also what is only of use to whoever looks for a fault"),
        ]), Default("info"), "warn",
            "How much there is of them.";
    },
};

const STORE_SHAPE: Shape = Shape::Either(&[Shape::Store, Shape::Section(&STORE)]);

/// `store` in its long form.
pub(crate) static STORE: Section = Section {
    name: "store",
    doc: "A Redis or Valkey that several processes share.",
    fields: fields! {
        "url": Shape::Store, Required, "redis+sentinel://a,b,c/mymaster",
            "Where it is: `redis://`, `redis+sentinel://` or `redis+cluster://`, with `rediss` for TLS.";
        "deadline": Shape::Duration, Default("20ms"), "50ms",
            "How long a decision waits for it; then the rule's `on_store_failure` decides.";
        "prefix": Shape::Text, Default("sluicegate"), "shop",
            "What its keys begin with. Processes with the same prefix count together.";
        "nodes": Shape::Count(1, 100_000), Default("2 until the store has told"), "4",
            "How many processes to share out `local_share` among before the store has told how many there are.";
        "permit_ttl": Shape::Duration, Default("30s"), "10s",
            "After how long the permits of a process that has gone are free again.";
        "ca": Shape::Text, Default("the public authorities"), "/etc/ssl/redis-ca.pem",
            "A file with the certificates of who may vouch for it; relative to the rule file.";
    },
};

/// `lists`.
pub(crate) static LISTS: Section = Section {
    name: "lists",
    doc: "Conditions that decide before any rule does; allow comes first and wins.",
    fields: fields! {
        "allow": Shape::List(&Shape::Condition), ABSENT, "[\"client.ip in 10.1.0.0/16\"]",
            "Requests that meet one of these pass, whatever the rules and the deny list say.";
        "deny": Shape::List(&Shape::Condition), ABSENT, "[\"account == 'mallory'\"]",
            "Requests that meet one of these are refused, unless allowed.";
    },
};

/// One of `rules`.
pub(crate) static RULE: Section = Section {
    name: "a rule",
    doc: "For these requests, by this key, these limits, and this when they are reached.",
    fields: fields! {
        "name": Shape::Name, Required, "per-ip",
            "Its name, unique in the file. A rule that keeps its name keeps its counts when the file changes.";
        "side": Shape::Word(&[
            ("inbound", "requests coming in"),
            ("outbound", "requests going out"),
            ("descriptor", "descriptors that a proxy sends to the decision server; the domain is the service"),
        ]),
            Default("inbound; outbound with `match: caller-of ...`"), "outbound",
            "Whether it looks at requests coming in, going out, or described by a proxy.";
        "match": Shape::Target, Default("everything"), "POST /api/orders",
            "Which requests it is for: methods, host, path pattern or service.";
        "when": Shape::Condition, Default("always"), "\"header['x-tier'] != 'vip'\"",
            "A further condition on the request's attributes.";
        "key": Shape::Either(&[KEY_PART, Shape::List(&KEY_PART)]), Default("everything together"), "client.ip",
            "What is counted apart: one attribute, or several together.";
        "limits": Shape::List(&LIMIT), Default("none: only with `adaptive`"), "[300/1m, 100/5s]",
            "The limits. A request must fit all of them, and takes from all or from none.";
        "cost": Shape::Either(&[Shape::Count(1, ANY), Shape::Attribute, Shape::Section(&COST)]),
            Default("1"), "header['x-tokens']",
            "What one request takes: a number, the attribute that holds it, or an estimate that is settled later.";
        "ban": Shape::Section(&BAN), Default("nobody is banned"), "{ after: 3 refusals in 1m, for: 10m }",
            "Shuts out a key that keeps running into the limits.";
        "priority": Shape::Word(&[
            ("vip", "served first"),
            ("normal", "what nobody spoke of"),
            ("background", "shed first under overload"),
        ]), Default("normal"), "background",
            "The class of the requests it matches, for shedding under overload.";
        "mode": Shape::Word(&[
            ("enforce", "refuses what is over the limit"),
            ("shadow", "counts and reports, and refuses nothing"),
        ]), Default("enforce"), "shadow",
            "Whether it acts or only watches.";
        "scope": Shape::Word(&[
            ("local", "each process counts for itself"),
            ("cluster", "all processes on one store count together"),
        ]), Default("local"), "cluster",
            "Who shares the count.";
        "cluster": Shape::Section(&CLUSTER), ABSENT, "{ mode: lease, on_store_failure: local_share }",
            "How a count is shared; only with `scope: cluster`.";
        "on_limit": Shape::Section(&ON_LIMIT), Default("refused with status 429"), "{ status: 503, body: later }",
            "What happens to a request over the limit.";
        "max_keys": Shape::Count(1, 1 << 32), Default("its share of `memory`"), "100000",
            "How many keys it remembers at once.";
        "adaptive": Shape::Either(&[
            Shape::Word(&[
                ("auto", "how many may be inside at once finds its own value"),
                ("cpu", "a rate that keeps the CPU from being used up"),
            ]),
            Shape::OneOf(ADAPTIVES),
        ]), ABSENT, "{ when: { cpu: \"> 85%\" }, limit: 100/s }",
            "What holds the rule's requests back, all together, while the process is under strain.";
    },
};

const KEY_PART: Shape = Shape::Either(&[Shape::Attribute, Shape::Section(&KEY)]);

/// A key part in its long form.
pub(crate) static KEY: Section = Section {
    name: "a key",
    doc: "An attribute with the prefixes that make one client out of many addresses.",
    fields: fields! {
        "attribute": Shape::Attribute, Required, "client.ip",
            "The attribute.";
        "ipv6_prefix": Shape::Count(1, 128), Default("64"), "56",
            "Leading bits of an IPv6 address that count as one client.";
        "ipv4_prefix": Shape::Count(1, 32), Default("32"), "24",
            "Leading bits of an IPv4 address that count as one client.";
    },
};

/// A cost in its long form.
pub(crate) static COST: Section = Section {
    name: "a cost",
    doc: "A cost that is known only when the request is over, such as the tokens of a language model.",
    fields: fields! {
        "estimate": Shape::Count(1, ANY), Required, "4000",
            "What is reserved when the request comes; what it really took is settled when it ends.";
        "actual": Shape::Actual, Default("told"), "response.json['usage.total_tokens']",
            "Where what it really took is found: `told` (by the program that serves it), `request.bytes`, \
             `response.bytes`, `response.header['x']` or `response.json['a.b']`.";
    },
};

/// One of `limits`.
pub(crate) const LIMIT: Shape = Shape::Either(&[Shape::Rate, Shape::OneOf(ALGORITHMS)]);

/// The long forms of a limit. The first field of each is its name.
pub(crate) static ALGORITHMS: &[&Section] = &[
    &TOKEN_BUCKET,
    &LEAKY_BUCKET,
    &FIXED_WINDOW,
    &SLIDING_WINDOW,
    &INTERPOLATED_WINDOW,
    &SLIDING_LOG,
    &CONCURRENCY,
    &BANDWIDTH,
    &WARM_UP,
];

pub(crate) static TOKEN_BUCKET: Section = Section {
    name: "a token_bucket",
    doc: "A rate, and a burst that may be spent at once: at most burst + rate x T in any T.",
    fields: fields! {
        "token_bucket": Shape::Rate, Required, "10/s", "How fast tokens come back.";
        "burst": Shape::Count(1, ANY), Default("the rate's count"), "20", "Tokens in a full bucket.";
    },
};

pub(crate) static LEAKY_BUCKET: Section = Section {
    name: "a leaky_bucket",
    doc: "A bounded line, let out at a constant pace.",
    fields: fields! {
        "leaky_bucket": Shape::Rate, Required, "5/s", "How fast requests are let out.";
        "queue": Shape::Count(1, ANY), Default("the rate's count"), "15", "How many it holds, the one that may go at once among them: with 1 nobody waits.";
    },
};

pub(crate) static FIXED_WINDOW: Section = Section {
    name: "a fixed_window",
    doc: "A count per window; around a boundary twice as many can pass within one window's length.",
    fields: fields! {
        "fixed_window": Shape::Rate, Required, "100/1h", "How many per window.";
        "align": Shape::Word(&[
            ("epoch", "windows begin at full hours, days and so on (UTC)"),
            ("first_use", "a window begins with its first request"),
        ]), Default("epoch"), "first_use", "When windows begin.";
    },
};

pub(crate) static SLIDING_WINDOW: Section = Section {
    name: "a sliding_window",
    doc: "Never more than the count in any window; what `300/1m` is short for.",
    fields: fields! {
        "sliding_window": Shape::Rate, Required, "15/3s", "How many in any window.";
        "cells": Shape::Count(1, 1000), Default("10"), "30",
            "How finely the window slides: requests count for at most 1/cells longer than the window.";
    },
};

pub(crate) static INTERPOLATED_WINDOW: Section = Section {
    name: "an interpolated_window",
    doc: "About the count in any window, in little memory; an adversary can reach almost twice as many.",
    fields: fields! {
        "interpolated_window": Shape::Rate, Required, "100/1m", "About how many per window.";
    },
};

pub(crate) static SLIDING_LOG: Section = Section {
    name: "a sliding_log",
    doc: "Exactly at most the count in any window; remembers every request of it.",
    fields: fields! {
        "sliding_log": Shape::Rate, Required, "100/1m", "How many in any window.";
    },
};

pub(crate) static CONCURRENCY: Section = Section {
    name: "a concurrency limit",
    doc: "How many may be under way at once.",
    fields: fields! {
        "concurrency": Shape::Count(1, ANY), Required, "50", "How many at once.";
    },
};

pub(crate) static BANDWIDTH: Section = Section {
    name: "a bandwidth limit",
    doc: "Paces the bytes of answers, for each key; nothing is refused. It stands in a rule of its own.",
    fields: fields! {
        "bandwidth": Shape::SizeRate, Required, "2MiB/s", "Bytes per time.";
        "burst": Shape::Size, Default("what passes in one second"), "8MiB", "Bytes that may pass at full speed first.";
    },
};

pub(crate) static WARM_UP: Section = Section {
    name: "a warm_up limit",
    doc: "A pace that begins slow after idleness and reaches the rate when warm.",
    fields: fields! {
        "warm_up": Shape::Rate, Required, "100/s", "The rate once warm.";
        "over": Shape::Duration, Required, "10s", "How long it takes to get warm.";
        "cold_factor": Shape::Count(2, 100), Default("3"), "3", "How many times slower it begins.";
    },
};

/// `ban`.
pub(crate) static BAN: Section = Section {
    name: "ban",
    doc: "Shuts out a key for a while after so many refusals.",
    fields: fields! {
        "after": Shape::Either(&[Shape::Refusals, Shape::Count(1, u32::MAX as u64)]), Required, "3 refusals in 1m",
            "How many refusals lead to the ban, and within how long.";
        "within": Shape::Duration, Default("what `after` says"), "1m",
            "Within how long, if `after` is a number alone.";
        "for": Shape::Duration, Required, "10m",
            "How long the ban lasts.";
    },
};

/// `cluster`.
pub(crate) static CLUSTER: Section = Section {
    name: "cluster",
    doc: "How a cluster-wide count is kept.",
    fields: fields! {
        "mode": Shape::Word(&[
            ("exact", "the store decides each request"),
            ("lease", "processes take slices of the limit and decide by themselves"),
        ]), Default("exact"), "lease",
            "How the store is asked.";
        "on_store_failure": Shape::Word(&[
            ("open", "admit everything"),
            ("closed", "refuse everything"),
            ("local_share", "each process enforces its share of the limit"),
        ]), Default("local_share"), "open",
            "What holds while the store does not answer.";
    },
};

const HEADERS: Shape = Shape::Map(&Shape::HeaderValue);
const REDIRECT_SHAPE: Shape = Shape::Either(&[Shape::Location, Shape::Section(&REDIRECT)]);

/// `on_limit`.
pub(crate) static ON_LIMIT: Section = Section {
    name: "on_limit",
    doc: "What happens to a request over the limit: it waits, and then is refused, degraded or redirected.",
    fields: fields! {
        "queue": Shape::Section(&QUEUE), Default("nobody waits"), "{ max_wait: 500ms, max_waiting: 1000 }",
            "Wait for a turn first, within these bounds.";
        "then": Shape::Section(&THEN), Default("what stands beside it"), "{ status: 429, body: busy }",
            "What is answered if there is no turn to wait for.";
        "status": Shape::Count(400, 599), Default("429"), "503", "Refuse with this HTTP status.";
        "body": Shape::Text, ABSENT, "\"busy, please retry\"", "Refuse with this text.";
        "json": Shape::Json, ABSENT, "{ error: busy }", "Refuse with this JSON.";
        "file": Shape::Text, ABSENT, "busy.html", "Refuse with this file's contents; relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ retry-after: 5 }", "Further headers of the refusal.";
        "degrade": Shape::Section(&DEGRADE), ABSENT, "{ status: 200, json: { items: [] } }",
            "Answer with substitute data instead.";
        "redirect": REDIRECT_SHAPE, ABSENT, "/busy", "Send the client elsewhere instead.";
    },
};

/// `on_limit.then`.
pub(crate) static THEN: Section = Section {
    name: "then",
    doc: "What is answered if there is no turn to wait for.",
    fields: fields! {
        "status": Shape::Count(400, 599), Default("429"), "503", "Refuse with this HTTP status.";
        "body": Shape::Text, ABSENT, "\"busy, please retry\"", "Refuse with this text.";
        "json": Shape::Json, ABSENT, "{ error: busy }", "Refuse with this JSON.";
        "file": Shape::Text, ABSENT, "busy.html", "Refuse with this file's contents; relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ retry-after: 5 }", "Further headers of the refusal.";
        "degrade": Shape::Section(&DEGRADE), ABSENT, "{ status: 200, json: { items: [] } }",
            "Answer with substitute data instead.";
        "redirect": REDIRECT_SHAPE, ABSENT, "/busy", "Send the client elsewhere instead.";
    },
};

/// `on_limit.queue`.
pub(crate) static QUEUE: Section = Section {
    name: "queue",
    doc: "How long and how many may wait for their turn.",
    fields: fields! {
        "max_wait": Shape::Duration, Required, "500ms",
            "The longest wait. Whoever would have to wait longer is refused at once.";
        "max_waiting": Shape::Count(1, u32::MAX as u64), Default("1000"), "1000",
            "The most that wait on one key.";
    },
};

/// `on_limit.degrade`.
pub(crate) static DEGRADE: Section = Section {
    name: "degrade",
    doc: "Substitute data, answered as if nothing were wrong.",
    fields: fields! {
        "status": Shape::Count(200, 599), Default("200"), "200", "The HTTP status.";
        "body": Shape::Text, ABSENT, "\"\"", "A text.";
        "json": Shape::Json, ABSENT, "{ items: [] }", "JSON.";
        "file": Shape::Text, ABSENT, "empty.html", "A file's contents; relative to the rule file.";
        "headers": HEADERS, ABSENT, "{ x-degraded: \"yes\" }", "Further headers.";
    },
};

/// `on_limit.redirect`.
pub(crate) static REDIRECT: Section = Section {
    name: "redirect",
    doc: "Sends the client elsewhere.",
    fields: fields! {
        "location": Shape::Location, Required, "https://status.example.com/", "Where to.";
        "status": Shape::Count(302, 307), Default("302"), "307", "302, 303 or 307.";
    },
};

/// The forms of `adaptive` that are a map. The first field of each says which it is.
pub(crate) static ADAPTIVES: &[&Section] = &[&ADAPTIVE, &ADAPTIVE_AUTO, &ADAPTIVE_CPU];

/// `adaptive`, with conditions.
pub(crate) static ADAPTIVE: Section = Section {
    name: "adaptive",
    doc: "A limit for all requests of the rule together that holds only while the process is under strain.",
    fields: fields! {
        "when": Shape::Section(&SIGNALS), Required, "{ load5: \"> 4\", avg_rt: \"> 100ms\" }",
            "The signals that say so.";
        "need": Shape::Word(&[
            ("all", "all of them must hold together"),
            ("any", "one of them is enough"),
        ]), Default("all"), "any", "How many of the signals must say so.";
        "limit": Shape::Ceiling, Required, "100/s",
            "What holds then, beside the rule's own limits: a rate, or a share of the most that was answered lately.";
        "enter_after": Shape::Duration, Default("750ms"), "2s",
            "How long the signals must say so before it holds.";
        "exit_after": Shape::Duration, Default("2s"), "10s",
            "How long the signals must be back beyond their exit values before it is raised again.";
        "hold": Shape::Duration, Default("2s"), "5s", "How long it holds at least.";
        "recovery": Shape::Share, Default("10%"), "25%",
            "By how much it is raised per second afterwards, until it holds nobody back.";
    },
};

/// `adaptive: { auto: … }`.
pub(crate) static ADAPTIVE_AUTO: Section = Section {
    name: "an adaptive with auto",
    doc: "A limit of requests inside at once that finds its own value.",
    fields: fields! {
        "auto": Shape::Section(&AUTO), Required, "{ max: 500 }",
            "Its bounds.";
    },
};

/// `auto`.
pub(crate) static AUTO: Section = Section {
    name: "auto",
    doc: "The bounds within which the limit finds its value, and how long requests wait for a place.",
    fields: fields! {
        "min": Shape::Count(1, 1_000_000), Default("2"), "10", "It never falls below this.";
        "max": Shape::Count(1, 1_000_000), Default("10000"), "500", "It never rises above this.";
        "start": Shape::Count(1, 1_000_000), Default("20, within `min` and `max`"), "50", "Where it starts.";
        "max_rt": Shape::Duration, Default("none"), "500ms",
            "A response time that is too long, whatever is usual.";
        "max_wait": Shape::Duration, Default("12 times what one takes, from 100ms to 1.2s"), "50ms",
            "How long a request waits for a place at most.";
        "max_waiting": Shape::Count(0, 1_000_000), Default("1000"), "100",
            "How many requests wait for a place at most.";
    },
};

/// `adaptive: { cpu: … }`.
pub(crate) static ADAPTIVE_CPU: Section = Section {
    name: "an adaptive with cpu",
    doc: "A rate that keeps the CPU from being used up, worked out from what a request costs.",
    fields: fields! {
        "cpu": Shape::Section(&CPU_GUARD), Required, "{ target: 80% }",
            "When it acts, and what it aims at.";
    },
};

/// `cpu`.
pub(crate) static CPU_GUARD: Section = Section {
    name: "cpu",
    doc: "When the CPU is protected, and how much of it is used then.",
    fields: fields! {
        "target": Shape::Share, Default("80%"), "70%", "The share of the CPU that requests are let in for.";
        "above": Shape::Share, Default("85%"), "90%",
            "It acts only while more than this share is used, or work waits for a CPU, or the quota runs out.";
    },
};

/// `adaptive.when`.
pub(crate) static SIGNALS: Section = Section {
    name: "adaptive.when",
    doc: "Signals, each compared with a value by `>`, `>=`, `<` or `<=`. A signal that cannot be read does not hold.",
    fields: fields! {
        "load1": NUMBER, ABSENT, "\"> 4\"", "The machine's load over one minute.";
        "load5": NUMBER, ABSENT, "\"> 4\"", "The machine's load over five minutes.";
        "load_per_core": NUMBER, ABSENT, "\"> 1.5\"",
            "The load over one minute, divided by the cores this process may use.";
        "cpu": PERCENT, ABSENT, "\"> 85%\"",
            "CPU time used, of what this process may use: of its control group where there is one.";
        "host_cpu": PERCENT, ABSENT, "\"> 85%\"", "CPU time used, of the whole machine.";
        "cpu_pressure": PERCENT, ABSENT, "\"> 20%\"", "Time in which work waited for a CPU.";
        "cpu_throttled": PERCENT, ABSENT, "\"> 10%\"",
            "Scheduling periods in which the control group ran out of its quota.";
        "memory": PERCENT, ABSENT, "\"> 90%\"", "Memory used, of what this process may use.";
        "avg_rt": TIME, ABSENT, "\"> 100ms\"", "The average response time of the rule's requests, in the last second.";
        "p50_rt": TIME, ABSENT, "\"> 50ms\"", "The response time that half of them stay within.";
        "p90_rt": TIME, ABSENT, "\"> 200ms\"", "The response time that nine in ten stay within.";
        "p99_rt": TIME, ABSENT, "\"> 500ms\"", "The response time that 99 in 100 stay within.";
        "in_flight": NUMBER, ABSENT, "\"> 50\"", "The rule's requests under way.";
        "qps": NUMBER, ABSENT, "\"> 1000\"", "The rule's requests coming in per second, refused ones included.";
        "connections": NUMBER, ABSENT, "\"> 5000\"", "Open connections.";
        "traffic": BYTES, ABSENT, "\"> 50MiB/s\"", "Bytes in and out per second, without the loopback.";
    },
};

const NUMBER: Shape = Shape::Either(&[Shape::Comparison(Unit::Number), Shape::Section(&CONDITION)]);
const PERCENT: Shape = Shape::Either(&[Shape::Comparison(Unit::Percent), Shape::Section(&CONDITION)]);
const TIME: Shape = Shape::Either(&[Shape::Comparison(Unit::Time), Shape::Section(&CONDITION)]);
const BYTES: Shape = Shape::Either(&[Shape::Comparison(Unit::BytesPerSecond), Shape::Section(&CONDITION)]);

/// A signal's long form.
pub(crate) static CONDITION: Section = Section {
    name: "a signal",
    doc: "A signal with its exit value and duration.",
    fields: fields! {
        "enter": Shape::Comparison(Unit::OfSignal), Required, "\"> 50\"", "From when on it means strain.";
        "exit": Shape::Comparison(Unit::OfSignal), Default("four fifths of `enter`; five quarters if that is `<`"), "\"< 30\"",
            "From when on the strain is over.";
        "for": Shape::Duration, Default("`enter_after`"), "5s", "How long it must say so by itself.";
    },
};

/// `server`.
pub(crate) static SERVER: Section = Section {
    name: "server",
    doc: "The decision server; each protocol runs if it has an address.",
    fields: fields! {
        "rls": SERVICE_SHAPE, Default("off"), "127.0.0.1:8081", "Envoy's rate limit service (gRPC).";
        "http": SERVICE_SHAPE, Default("off"), "127.0.0.1:8082", "Decisions over HTTP.";
        "resp": SERVICE_SHAPE, Default("off"), "127.0.0.1:6380", "Decisions over the Redis protocol.";
        "ratelimit": Shape::Text, Default("none"), "ratelimit/config",
            "A folder of files as envoyproxy/ratelimit reads them; relative to the rule file. Descriptors are then \
             decided by them, and those of domains they do not have by the rules with `side: descriptor`.";
        "connections": Shape::Section(&gateway::CONNECTIONS), ABSENT, "{ max: 10000, per_client: 100 }",
            "How many connections are held at once, over all protocols.";
        "threads": Shape::Count(1, 1024), Default("one for each core"), "2",
            "How many threads serve.";
        "busy_poll": Shape::Duration, Default("none"), "50us",
            "For how long each thread looks for more after the last thing it did, before it sleeps: up to 1ms. It is for \
             machines with cores to spare. Calls are answered sooner, and the cores look busy.";
        "trusted_proxies": Shape::List(&Shape::Network), Default("this machine: 127.0.0.0/8 and ::1"), "[10.0.0.0/8]",
            "Which proxies that ask by forward auth say who the client is.";
        "max_request": Shape::Size, Default("1MiB"), "64KiB",
            "The most bytes of one request, from 1KiB to 64MiB.";
        "max_checks": Shape::Count(1, 100_000), Default("1000"), "100",
            "The most checks or descriptors of one request.";
        "max_held": Shape::Count(1, u32::MAX as u64), Default("100000"), "10000",
            "The most reservations and permits that are held for clients at once.";
        "max_keys": Shape::Count(1, u32::MAX as u64), Default("1000000"), "100000",
            "How many keys are remembered of limits that come with the calls: CL.THROTTLE and Envoy's overrides. \
             Memory for them is taken when the first of them comes.";
        "timeouts": Shape::Section(&gateway::TIMEOUTS), ABSENT, "{ idle: 1h }",
            "How long clients may take. `idle` is an hour unless said otherwise: clients keep connections.";
        "drain": Shape::Duration, Default("0s"), "5s",
            "For how long it goes on serving, new connections too, when it is told to stop and has said so to those who \
             ask for its health. Load balancers need so long to send clients elsewhere. A restart does not wait.";
    },
};

const SERVICE_SHAPE: Shape = Shape::Either(&[Shape::Address, Shape::Section(&SERVICE)]);

/// One protocol of `server` in its long form.
pub(crate) static SERVICE: Section = Section {
    name: "a service",
    doc: "Where a protocol of the decision server listens, and who may ask.",
    fields: fields! {
        "address": Shape::Address, Default("only at `unix`"), "0.0.0.0:8081",
            "The address.";
        "unix": Shape::Text, Default("no such socket"), "/run/sluicegate/rls.sock",
            "A Unix socket to listen at, too; relative to the rule file.";
        "tls": Shape::Section(&gateway::TLS), Default("not encrypted"), "{ certificate: cert.pem, key: key.pem }",
            "Encrypts what comes over the address, by this certificate.";
        "secret": Shape::Text, Default("everybody may ask"), "secret.txt",
            "A file with the secret that clients must show: a bearer token over HTTP and gRPC, the password of AUTH \
             over the Redis protocol. Relative to the rule file.";
    },
};

/// `admin`.
pub(crate) static ADMIN: Section = Section {
    name: "admin",
    doc: "Dashboard, metrics and admin API.",
    fields: fields! {
        "listen": Shape::Address, Default("127.0.0.1:9900"), "127.0.0.1:9900", "Where it listens; better on loopback.";
        "token": Shape::Text, Default("only this machine may read, and nobody write"), "tokens.txt",
            "A file with tokens, one a line: `NAME TOKEN`, or `NAME TOKEN read` for who may only read. Changes are \
             noted under the name. Relative to the rule file.";
        "tls": Shape::Section(&gateway::TLS), Default("not encrypted"), "{ certificate: cert.pem, key: key.pem }",
            "Encrypts it, by this certificate.";
        "otlp": Shape::Either(&[Shape::Url, Shape::Section(&OTLP)]), Default("metrics are only served at /metrics"),
            "http://127.0.0.1:4318",
            "A collector of OpenTelemetry that metrics are pushed to, by OTLP over HTTP.";
    },
};

/// `admin.otlp` in its long form.
pub(crate) static OTLP: Section = Section {
    name: "otlp",
    doc: "A collector of OpenTelemetry that metrics are pushed to.",
    fields: fields! {
        "endpoint": Shape::Url, Required, "http://127.0.0.1:4318",
            "Where it takes OTLP over HTTP.";
        "every": Shape::Duration, Default("10s"), "1m",
            "How often.";
    },
};

/// Every section, in the order of the reference.
pub(crate) static ALL: &[&Section] = &[
    &FILE,
    &RULE,
    &KEY,
    &COST,
    &TOKEN_BUCKET,
    &LEAKY_BUCKET,
    &FIXED_WINDOW,
    &SLIDING_WINDOW,
    &INTERPOLATED_WINDOW,
    &SLIDING_LOG,
    &CONCURRENCY,
    &BANDWIDTH,
    &WARM_UP,
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
    &gateway::ANSWER,
    &gateway::ANSWER_REDIRECT,
    &SERVER,
    &SERVICE,
    &ADMIN,
    &OTLP,
    &LOG,
];
