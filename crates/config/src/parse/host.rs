//! Parses host names.

use super::value::FieldValue;
use crate::diagnostic::{DiagnosticBuilder, quoted};

/// Maximum length of a name and of a label, in bytes.
const MAX_NAME_AND_LABEL_BYTES: (usize, usize) = (253, 63);

/// Parses a route's host: a name, or `*.` and a name for its subdomains. Returned in lower case.
pub(crate) fn host_pattern(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let name = text.strip_prefix("*.").unwrap_or(text);
    let port = without_port(name).filter(|bare| host_error(bare).is_none()).map(|bare| &name[bare.len()..]);
    let usage = || "write a name such as shop.example.com, or *.example.com for all subdomains".to_owned();
    let (label, help) = match (host_error(name), port) {
        (None, _) if name.len() < text.len() && is_address(name) => ("an address has no subdomains", usage()),
        (None, _) => return Some(canonical(text)),
        (Some(_), Some(port)) => ("the port is not part of the host", format!("remove `{port}`")),
        (Some(_), None) if text == "*" => ("`*` alone is not allowed", "remove `host` to match any host".to_owned()),
        (Some(_), None) if name.contains('*') => ("`*.` is allowed only at the start", usage()),
        (Some(error), None) => (error, usage()),
    };
    refuse(item, text, label, help);
    None
}

/// Parses a `Host` header value, with an optional port.
pub(crate) fn host(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let error = match host_error(without_port(text).unwrap_or(text)) {
        None => return Some(text.to_owned()),
        Some(error) => error,
    };
    refuse(item, text, error, format!("write {}", item.shape.expected()));
    None
}

fn refuse(item: &FieldValue<'_>, text: &str, error: &str, help: String) {
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("{} is not a valid host", quoted(text))).label(error).help(help),
    );
}

fn is_address(name: &str) -> bool {
    name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Lower case without a trailing dot.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// The part before the port, if there is one.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = host.rsplit_once(':')?;
    let is_host = !name.contains(':') || name.ends_with(']');
    (is_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(name)
}

/// Returns the error in a name or address without port.
fn host_error(name: &str) -> Option<&'static str> {
    if let Some(inner) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_err().then_some("invalid IPv6 address");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let (max_name, max_label) = MAX_NAME_AND_LABEL_BYTES;
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    match name {
        "" => Some("empty"),
        _ if name.contains("://") => Some("a URL, not a host"),
        _ if name.contains('/') => Some("contains a path"),
        _ if name.parse::<std::net::Ipv6Addr>().is_ok() => Some("IPv6 addresses need brackets"),
        _ if !name.is_ascii() => Some("not in ASCII form, which starts with xn--"),
        _ if name.len() > max_name => Some("longer than 253 characters"),
        _ if name.split('.').any(|part| part.is_empty()) => Some("empty label"),
        _ if name.split('.').any(|part| part.len() > max_label) => Some("a label is longer than 63 characters"),
        _ if !name.split('.').all(|part| part.bytes().all(is_allowed)) => {
            Some("only letters, digits, `-` and dots are allowed")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_valid_hosts() {
        for good in ["shop", "shop.example", "Shop.Example.", "a_b.c-d", "127.0.0.1", "[::1]", "xn--bcher-kva.example"]
        {
            assert_eq!(host_error(good), None, "{good}");
        }
        let long = format!("{}.example", "a".repeat(64));
        for bad in ["", ".", "a..b", "a b", "::1", "[1]", "[::1", "http://a", "a/b", "*.a", "b\u{fc}cher", &long] {
            assert!(host_error(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn the_port_follows_the_last_colon() {
        assert_eq!(without_port("a:80"), Some("a"));
        assert_eq!(without_port("[::1]:80"), Some("[::1]"));
        for none in ["a", "a:", "a:0", "a:x", "a:99999", "::1", "[::1]"] {
            assert_eq!(without_port(none), None, "{none}");
        }
    }

    #[test]
    fn names_are_canonicalized() {
        assert_eq!(canonical("*.Shop.Example."), "*.shop.example");
    }
}
