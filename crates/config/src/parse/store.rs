//! Parses `store`: `memory`, or the URL of a Redis or Valkey server.
//!
//! ```text
//! redis://[user:password@]host[:port][/database]
//! redis+sentinel://[user:password@]host[:port],host[:port]/primary[/database]
//! redis+cluster://[user:password@]host[:port],host[:port]
//! ```
//! `rediss` instead of `redis` enables TLS. The long form has the URL and further options.

use std::time::Duration;

use sluicegate_engine::spelling::nearest;

use super::map::FieldMap;
use super::paths::file_path;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::Shape;
use crate::settings::{RedisStore, Store, Topology};

const SCHEMES: [&str; 6] = ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// A URL error: message and remedy.
type UrlError = (String, String);

/// Maximum time that a decision waits for the store.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum permit TTL that leaves time for renewal.
const MIN_PERMIT_TTL: Duration = Duration::from_secs(1);

/// Parses `store`.
pub(crate) fn store(item: FieldValue<'_>) -> Option<Store> {
    let item = item.narrow();
    match item.shape {
        Shape::Section(_) => long_form(&item.section()?),
        _ => short_form(&item),
    }
}

fn long_form(fields: &FieldMap<'_>) -> Option<Store> {
    let store = fields.get("url").and_then(|it| short_form(&it));
    let timeout = fields.get("timeout").and_then(|it| it.nonzero_duration()).unwrap_or(RedisStore::DEFAULT_TIMEOUT);
    let permit_ttl =
        fields.get("permit_ttl").and_then(|it| it.nonzero_duration()).unwrap_or(RedisStore::DEFAULT_PERMIT_TTL);
    let wrong = |name, message: &str, label: &str, help: &str| {
        fields.context.report(DiagnosticBuilder::error(fields.value_span(name), message).label(label).help(help));
    };
    if timeout > MAX_TIMEOUT {
        wrong("timeout", "`timeout` is longer than 10s", "too long", "use a few milliseconds, such as 20ms");
    }
    if permit_ttl < MIN_PERMIT_TTL {
        wrong(
            "permit_ttl",
            "`permit_ttl` is shorter than 1s",
            "too short to renew permits in time",
            "use a duration such as 30s",
        );
    }
    let prefix = fields.text("prefix");
    let prefix = prefix.unwrap_or_else(|| RedisStore::DEFAULT_PREFIX.to_owned());
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:/".contains(&b);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(is_plain) {
        wrong("prefix", "`prefix` is not valid", "invalid prefix", "use 1 to 64 letters, digits and - . _ : /");
    }
    let expected_nodes = fields.count32("expected_nodes");
    let ca = fields.get("ca").and_then(|it| file_path(&it));
    match store? {
        Store::Memory => {
            wrong(
                "url",
                "`memory` has no options",
                "not a URL",
                "write `store: memory`, or use the URL of a Redis server",
            );
            None
        }
        Store::Redis(store) => {
            if ca.is_some() && !store.tls {
                wrong(
                    "ca",
                    "`ca` requires TLS",
                    "the URL does not use TLS",
                    "start the URL with `rediss`, or remove `ca`",
                );
            }
            Some(Store::Redis(RedisStore { timeout, prefix, expected_nodes, permit_ttl, ca, ..store }))
        }
    }
}

fn short_form(item: &FieldValue<'_>) -> Option<Store> {
    let text = item.text()?;
    if text == "memory" {
        return Some(Store::Memory);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        if text.contains('@') {
            let finding = DiagnosticBuilder::error(item.span(), "`store` must be `memory` or a URL");
            item.context.report(finding.label("no scheme").help("start the URL with redis://"));
            return None;
        }
        let near = nearest(text, ["memory"]).map(|word| format!("did you mean `{word}`?"));
        item.mismatch(near);
        return None;
    };
    match redis(scheme, rest) {
        Ok(store) => Some(Store::Redis(store)),
        Err((error, help)) => {
            // The URL may contain a password: the message does not repeat it, and the shown line masks it.
            item.context.report(
                DiagnosticBuilder::error(item.span(), format!("`store`: {error}")).label("invalid URL").help(help),
            );
            None
        }
    }
}

fn redis(scheme: &str, rest: &str) -> Result<RedisStore, UrlError> {
    if !SCHEMES.contains(&scheme) {
        let near = nearest(scheme, SCHEMES).unwrap_or("redis");
        return Err((format!("unknown scheme '{scheme}'"), format!("did you mean `{near}://`?")));
    }
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (username, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        Some((user, password)) => (non_empty(&decoded(user)?), non_empty(&decoded(password)?)),
        None => (None, None),
    };
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if scheme.ends_with("+sentinel") { 26379 } else { 6379 };
    let nodes: Vec<String> = hosts.split(',').map(|host| node(host, port)).collect::<Result<_, _>>()?;
    let (topology, database) = if scheme.ends_with("+sentinel") {
        let (primary, database) = path.split_once('/').unwrap_or((path, ""));
        if primary.is_empty() {
            return Err((
                "the name of the primary is missing".to_owned(),
                "add it after the hosts, as in redis+sentinel://a,b,c/mymaster".to_owned(),
            ));
        }
        (Topology::Sentinel(primary.to_owned()), database)
    } else if scheme.ends_with("+cluster") {
        (Topology::Cluster, path)
    } else {
        (Topology::Single, path)
    };
    if topology == Topology::Single && nodes.len() > 1 {
        return Err((
            "several hosts, but redis:// is for a single server".to_owned(),
            "write redis+cluster:// or redis+sentinel:// for several hosts".to_owned(),
        ));
    }
    let database = match database {
        "" => 0,
        digits => digits.parse().map_err(|_| {
            ("the database is not a number".to_owned(), "write a number, as in redis://host:6379/2".to_owned())
        })?,
    };
    if topology == Topology::Cluster && database != 0 {
        return Err(("a Redis Cluster has only database 0".to_owned(), "remove the part after the hosts".to_owned()));
    }
    Ok(RedisStore {
        topology,
        tls: scheme.starts_with("rediss"),
        username,
        password,
        nodes,
        database,
        timeout: RedisStore::DEFAULT_TIMEOUT,
        prefix: RedisStore::DEFAULT_PREFIX.to_owned(),
        expected_nodes: None,
        permit_ttl: RedisStore::DEFAULT_PERMIT_TTL,
        ca: None,
    })
}

/// `host:port`, with the default port filled in.
fn node(host: &str, port: u16) -> Result<String, UrlError> {
    let remedy = || "write host:port, such as redis://127.0.0.1:6379".to_owned();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, digits)) if !digits.ends_with(']') => {
            let port = digits.parse::<u16>().ok().filter(|port| *port > 0);
            (name, port.ok_or_else(|| ("the port is not a number from 1 to 65535".to_owned(), remedy()))?)
        }
        _ => (host, port),
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let valid = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
    };
    if !valid {
        return Err(("the host is missing or has invalid characters".to_owned(), remedy()));
    }
    Ok(format!("{name}:{port}"))
}

/// Percent-decodes a part of a URL: `p%40ss` is `p@ss`.
fn decoded(text: &str) -> Result<String, UrlError> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| ("user or password is not valid UTF-8".to_owned(), "write a percent sign as %25".to_owned()))
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RedisStore, UrlError> {
        let (scheme, rest) = text.split_once("://").unwrap();
        redis(scheme, rest)
    }

    #[test]
    fn the_three_topologies_are_read() {
        assert_eq!(parse("redis://h").unwrap().nodes, ["h:6379"]);
        let sentinel = parse("rediss+sentinel://u:p@a,b:1/main/3").unwrap();
        assert_eq!(sentinel.topology, Topology::Sentinel("main".to_owned()));
        assert_eq!(sentinel.nodes, ["a:26379", "b:1"]);
        assert!(sentinel.tls && sentinel.database == 3);
        assert_eq!(parse("redis+cluster://a,b,[::1]:7000").unwrap().nodes, ["a:6379", "b:6379", "[::1]:7000"]);
    }

    #[test]
    fn the_password_is_not_shown() {
        let store = parse("redis://u:secret@h/1").unwrap();
        assert_eq!(store.password.as_deref(), Some("secret"));
        assert!(!format!("{store:?}").contains("secret"));
        let odd = parse("redis://me%3A:p%40s%25s/word@h").unwrap();
        assert_eq!((odd.username.as_deref(), odd.password.as_deref()), (Some("me:"), Some("p@s%s/word")));
        assert!(parse("redis://u:%ff@h").is_err());
    }

    #[test]
    fn invalid_urls_are_refused() {
        let texts =
            ["redis://", "redis://a,b", "redis://h:0", "redis://h:x", "redis://h/x", "rds://h", "redis+sentinel://a"];
        for text in texts.iter().chain(&["redis+cluster://a/1", "redis://h h", "redis://[::1"]) {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
