//! Checks the configuration of a server when a connection to it is made.

use redis::{Value, from_redis_value};

use super::multiplexed::Connection;

/// The oldest server version with everything that the scripts use.
const MIN_VERSION: (u32, u32) = (6, 2);

/// Warnings about the server configuration. Empty if the user may not read it.
pub(super) async fn warnings(connection: &Connection) -> Vec<String> {
    match connection.command(&["INFO"]).await.map(from_redis_value::<String>) {
        Ok(Ok(info)) => check_info(&info),
        _ => Vec::new(),
    }
}

/// True if the server reports the replica role. `None` if it reports no role.
pub(super) async fn is_replica(connection: &Connection) -> Option<bool> {
    match connection.command(&["ROLE"]).await.ok()? {
        Value::Array(parts) => match parts.first()? {
            Value::BulkString(role) => Some(role != b"master"),
            _ => None,
        },
        _ => None,
    }
}

fn check_info(info: &str) -> Vec<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let mut warnings = Vec::new();
    if let (Some(bound), Some(policy)) = (field("maxmemory"), field("maxmemory_policy"))
        && bound != "0"
        && policy != "noeviction"
    {
        warnings.push(format!(
            "maxmemory-policy is {policy}: under memory pressure the server evicts keys and loses counts; set it to \
             noeviction"
        ));
    }
    // Valkey reports both; its own version is the meaningful one.
    if let Some(version) = field("valkey_version").or_else(|| field("redis_version"))
        && parse_version(version).is_some_and(|numbers| numbers < MIN_VERSION)
    {
        let (major, minor) = MIN_VERSION;
        warnings.push(format!("version {version} is older than {major}.{minor}, the oldest supported version"));
    }
    warnings
}

fn parse_version(version: &str) -> Option<(u32, u32)> {
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
    fn only_an_evicting_memory_limit_raises_a_warning() {
        assert!(check_info(&info("redis_version:7.0.15", "0", "allkeys-lru")).is_empty());
        assert!(check_info(&info("redis_version:7.0.15", "1000", "noeviction")).is_empty());
        let warnings = check_info(&info("redis_version:7.0.15", "1000", "volatile-ttl"));
        assert!(warnings.len() == 1 && warnings[0].contains("volatile-ttl"), "{warnings:?}");
    }

    #[test]
    fn old_servers_raise_a_warning() {
        let warned = |version: &str| !check_info(&info(version, "0", "noeviction")).is_empty();
        assert!(warned("redis_version:5.0.14") && warned("redis_version:6.0.1"));
        assert!(!warned("redis_version:6.2.0") && !warned("redis_version:8.0.0") && !warned("redis_version:?"));
        assert!(!warned("redis_version:7.2.4\r\nvalkey_version:8.1.0"));
        assert!(check_info("").is_empty());
    }
}
