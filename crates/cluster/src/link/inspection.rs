//! Looks at how a server is set up, once, when a connection to it is made.

use redis::{Value, from_redis_value};

use super::connection::Connection;

/// The oldest server that has all that the scripts use.
const OLDEST: (u32, u32) = (6, 2);

/// What is wrong with how the server is set up. A user that may not look finds nothing.
pub(super) async fn warnings(connection: &Connection) -> Vec<String> {
    match connection.command(&["INFO"]).await.map(from_redis_value::<String>) {
        Ok(Ok(info)) => judge(&info),
        _ => Vec::new(),
    }
}

/// Whether the server says it is a replica. `None` if it does not say.
pub(super) async fn is_replica(connection: &Connection) -> Option<bool> {
    match connection.command(&["ROLE"]).await.ok()? {
        Value::Array(parts) => match parts.first()? {
            Value::BulkString(role) => Some(role != b"master"),
            _ => None,
        },
        _ => None,
    }
}

fn judge(info: &str) -> Vec<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let mut warnings = Vec::new();
    if let (Some(bound), Some(policy)) = (field("maxmemory"), field("maxmemory_policy"))
        && bound != "0"
        && policy != "noeviction"
    {
        warnings.push(format!(
            "maxmemory-policy is {policy}: under memory pressure the server drops keys and with them what was \
             counted; set it to noeviction"
        ));
    }
    // Valkey says both; its own version is the one that counts up.
    if let Some(version) = field("valkey_version").or_else(|| field("redis_version"))
        && numbers(version).is_some_and(|numbers| numbers < OLDEST)
    {
        let (major, minor) = OLDEST;
        warnings.push(format!("version {version} is older than {major}.{minor}, the oldest this is made for"));
    }
    warnings
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, bound: &str, policy: &str) -> String {
        format!("# Server\r\n{version}\r\n# Memory\r\nmaxmemory:{bound}\r\nmaxmemory_policy:{policy}\r\n")
    }

    #[test]
    fn only_a_bound_that_evicts_is_warned_of() {
        assert!(judge(&info("redis_version:7.0.15", "0", "allkeys-lru")).is_empty());
        assert!(judge(&info("redis_version:7.0.15", "1000", "noeviction")).is_empty());
        let warnings = judge(&info("redis_version:7.0.15", "1000", "volatile-ttl"));
        assert!(warnings.len() == 1 && warnings[0].contains("volatile-ttl"), "{warnings:?}");
    }

    #[test]
    fn old_servers_are_warned_of() {
        let warned = |version: &str| !judge(&info(version, "0", "noeviction")).is_empty();
        assert!(warned("redis_version:5.0.14") && warned("redis_version:6.0.1"));
        assert!(!warned("redis_version:6.2.0") && !warned("redis_version:8.0.0") && !warned("redis_version:?"));
        assert!(!warned("redis_version:7.2.4\r\nvalkey_version:8.1.0"));
        assert!(judge("").is_empty());
    }
}
