//! Names of hosts.

use super::item::Item;
use crate::diagnostic::{Finding, quoted};

/// The longest name, and the longest part between two dots.
const LONGEST: (usize, usize) = (253, 63);

/// A host that routes are chosen by: a name, or `*.` and a name for all below it. Written in small letters.
pub(crate) fn host_pattern(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let name = text.strip_prefix("*.").unwrap_or(text);
    let port = without_port(name).filter(|bare| fault(bare).is_none()).map(|bare| &name[bare.len()..]);
    let usual = || "write a name such as shop.example.com, or *.example.com for all below it".to_owned();
    let (label, help) = match (fault(name), port) {
        (None, _) if name.len() < text.len() && is_address(name) => ("an address has nothing below it", usual()),
        (None, _) => return Some(canonical(text)),
        (Some(_), Some(port)) => ("hosts are compared without port", format!("remove `{port}`")),
        (Some(_), None) if text == "*" => ("says nothing", "for any host, leave `host` out".to_owned()),
        (Some(_), None) if name.contains('*') => ("`*.` stands only in front", usual()),
        (Some(fault), None) => (fault, usual()),
    };
    refuse(item, text, label, help);
    None
}

/// A host that is sent, with or without port.
pub(crate) fn host(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let fault = match fault(without_port(text).unwrap_or(text)) {
        None => return Some(text.to_owned()),
        Some(fault) => fault,
    };
    refuse(item, text, fault, format!("write {}", item.shape.wanted()));
    None
}

fn refuse(item: &Item<'_>, text: &str, fault: &str, help: String) {
    item.context.report(Finding::error(item.span(), format!("{} is no host", quoted(text))).label(fault).help(help));
}

fn is_address(name: &str) -> bool {
    name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Names are compared in small letters and without the dot at their end.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// What stands before the port, if there is one.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = host.rsplit_once(':')?;
    let plain = !name.contains(':') || name.ends_with(']');
    (plain && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(name)
}

/// What is wrong with a name or address, without port.
fn fault(name: &str) -> Option<&'static str> {
    if let Some(inner) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_err().then_some("no IPv6 address");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let (longest, longest_part) = LONGEST;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    match name {
        "" => Some("empty"),
        _ if name.contains("://") => Some("a URL, not a host"),
        _ if name.contains('/') => Some("a path does not belong here"),
        _ if name.parse::<std::net::Ipv6Addr>().is_ok() => Some("IPv6 addresses stand in brackets"),
        _ if !name.is_ascii() => Some("not in its ASCII form, which begins with xn--"),
        _ if name.len() > longest => Some("longer than 253 characters"),
        _ if name.split('.').any(|part| part.is_empty()) => Some("nothing between two dots"),
        _ if name.split('.').any(|part| part.len() > longest_part) => Some("a part longer than 63 characters"),
        _ if !name.split('.').all(|part| part.bytes().all(plain)) => Some("letters, digits, `-` and dots only"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_hosts() {
        for good in ["shop", "shop.example", "Shop.Example.", "a_b.c-d", "127.0.0.1", "[::1]", "xn--bcher-kva.example"]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        let long = format!("{}.example", "a".repeat(64));
        for bad in ["", ".", "a..b", "a b", "::1", "[1]", "[::1", "http://a", "a/b", "*.a", "b\u{fc}cher", &long] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_port_is_what_follows_the_last_colon() {
        assert_eq!(without_port("a:80"), Some("a"));
        assert_eq!(without_port("[::1]:80"), Some("[::1]"));
        for none in ["a", "a:", "a:0", "a:x", "a:99999", "::1", "[::1]"] {
            assert_eq!(without_port(none), None, "{none}");
        }
    }

    #[test]
    fn names_are_compared_in_one_spelling() {
        assert_eq!(canonical("*.Shop.Example."), "*.shop.example");
    }
}
