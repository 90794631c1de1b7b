//! Upstreams: `upstream` groups and servers named in `proxy_pass`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::context::{InheritedDirectives, UpstreamHost, is_host};
use super::directive::Directive;
use super::note::Notes;
use super::unsupported::Unsupported;
use super::yaml;

/// An upstream in the generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpstreamConfig {
    pub(super) servers: Vec<String>,
    least_in_flight: bool,
    max_connections: Option<u64>,
    host: Option<String>,
    connect: Option<String>,
    read: Option<String>,
    /// Source location of the group, if it is one.
    comment: Option<String>,
}

/// The upstreams used by routes.
#[derive(Default)]
pub(super) struct Upstreams<'a> {
    pub(super) groups: HashMap<&'a str, &'a Directive>,
    emitted: Vec<(String, UpstreamConfig)>,
    used: Vec<String>,
}

/// Target of `proxy_pass`: the upstream, and the path that replaces the location's, if given.
pub(super) struct ProxyTarget<'a> {
    scheme: &'a str,
    authority: &'a str,
    pub(super) path: Option<&'a str>,
}

impl<'a> ProxyTarget<'a> {
    pub(super) fn read(directive: &'a Directive) -> Result<Self, String> {
        let url = directive.first_arg();
        if url.contains('$') {
            return Err("upstreams are fixed; define one for each value of the variable".to_owned());
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            _ => return Err("expected an http:// or https:// URL".to_owned()),
        };
        if rest.starts_with("unix:") {
            return Err(UNIX.to_owned());
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        let clean = |path: &str| path.bytes().all(|b| b.is_ascii_graphic() && !b"?#{}*\"\\".contains(&b));
        if path.is_some_and(|path| !clean(path) || path.contains("//")) {
            return Err("unsupported path of the upstream".to_owned());
        }
        Ok(Self { scheme, authority, path })
    }
}

const UNIX: &str = "Unix sockets are not supported for upstreams; use a TCP address";

impl<'a> Upstreams<'a> {
    /// Returns the name of the upstream for this target and path prefix.
    pub(super) fn name(
        &mut self,
        target: &ProxyTarget<'_>,
        base: &str,
        inherited: &InheritedDirectives<'_>,
        notes: &mut Notes,
    ) -> Result<String, String> {
        self.used.push(target.authority.to_owned());
        let (preferred, mut upstream) = match self.groups.get(target.authority) {
            Some(group) => (target.authority.to_owned(), parse_group(group, target.scheme, notes)?),
            None => {
                let address = address(target.authority).ok_or("unsupported host of the upstream")?;
                let name = target.authority.replace([':', '[', ']'], "-");
                (name.trim_matches('-').to_owned(), UpstreamConfig::of(vec![format!("{}://{address}", target.scheme)]))
            }
        };
        let base = base.trim_end_matches('/');
        upstream.servers.iter_mut().for_each(|server| server.push_str(base));
        upstream.connect.clone_from(&inherited.connect);
        upstream.read.clone_from(&inherited.read);
        upstream.host = match &inherited.host {
            UpstreamHost::Client => None,
            UpstreamHost::Fixed(name) => Some(name.clone()),
            // nginx sends the name in `proxy_pass`, which is the group's name for a group.
            UpstreamHost::Proxied if self.groups.contains_key(target.authority) && is_host(target.authority) => {
                Some(target.authority.to_owned())
            }
            UpstreamHost::Proxied => Some("server".to_owned()),
        };
        if let Some((name, _)) = self.emitted.iter().find(|(_, known)| *known == upstream) {
            return Ok(name.clone());
        }
        let clean: String = preferred.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
        let taken = |name: &String| self.emitted.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number: u64| format!("{clean}-{number}"));
        let name = std::iter::once(clean.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(clean);
        self.emitted.push((name.clone(), upstream));
        Ok(name)
    }

    /// The groups that no route uses.
    pub(super) fn unused(&self) -> Vec<&'a Directive> {
        let unused = self.groups.iter().filter(|(name, _)| !self.used.iter().any(|used| used == *name));
        unused.map(|(_, directive)| *directive).collect()
    }

    /// Renders all upstreams as YAML.
    pub(super) fn yaml(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, upstream) in &self.emitted {
            lines.extend(upstream.comment.as_ref().map(|comment| yaml::comment(comment)));
            lines.push(format!("{}: {}", yaml::text(name), upstream.yaml()));
        }
        lines
    }
}

impl UpstreamConfig {
    const fn of(servers: Vec<String>) -> Self {
        Self {
            servers,
            least_in_flight: false,
            max_connections: None,
            host: None,
            connect: None,
            read: None,
            comment: None,
        }
    }

    fn yaml(&self) -> String {
        let servers = yaml::list(self.servers.iter().map(|server| yaml::quoted(server)));
        let mut fields = Vec::new();
        if self.least_in_flight {
            fields.push(("balance", "least_in_flight".to_owned()));
        }
        fields.extend(self.max_connections.map(|max| ("max_connections", max.to_string())));
        fields.extend(self.host.as_ref().map(|host| ("host", yaml::text(host))));
        let connect = self.connect.iter().map(|time| ("connect", time.clone()));
        let read = self.read.iter().flat_map(|time| [("response", time.clone()), ("body", time.clone())]);
        let timeouts: Vec<_> = connect.chain(read).collect();
        if !timeouts.is_empty() {
            fields.push(("timeouts", yaml::map(timeouts)));
        }
        if fields.is_empty() {
            return servers;
        }
        yaml::map(std::iter::once(("servers", servers)).chain(fields))
    }
}

fn parse_group(group: &Directive, scheme: &str, notes: &mut Notes) -> Result<UpstreamConfig, String> {
    let mut upstream = UpstreamConfig::of(Vec::new());
    upstream.comment = Some(format!("{}: {group}", group.location));
    let mut weights: Vec<(&str, &Directive)> = Vec::new();
    let mut limits: Vec<Option<u64>> = Vec::new();
    for it in group.children() {
        match it.name.as_str() {
            "server" => {
                let has_option = |name: &str| it.args.iter().any(|arg| arg == name);
                if has_option("down") || has_option("backup") {
                    notes.unsupported(it, "backup and down servers are not supported; this server is omitted");
                    continue;
                }
                let Some(address) = address(it.first_arg()) else {
                    let unix = it.first_arg().starts_with("unix:");
                    notes.unsupported(it, if unix { UNIX } else { "unsupported address of the server" });
                    continue;
                };
                let mut weight = "1";
                let mut limit = None;
                for arg in it.args.iter().skip(1) {
                    match arg.split_once('=') {
                        Some(("weight", text)) => weight = text,
                        Some(("max_conns", text)) => limit = text.parse().ok().filter(|max| *max > 0),
                        Some(("max_fails" | "fail_timeout", _)) => {
                            notes.unsupported(
                                it,
                                "max_fails and fail_timeout are not converted: use a `health` check of the upstream",
                            );
                        }
                        _ => notes.unsupported(it, format!("unknown parameter `{arg}`")),
                    }
                }
                weights.push((weight, it));
                limits.push(limit);
                upstream.servers.push(format!("{scheme}://{address}"));
            }
            "least_conn" => upstream.least_in_flight = true,
            "ip_hash" | "hash" | "random" | "sticky" => {
                notes.unsupported(it, "unsupported load balancing: `balance` is round_robin or least_in_flight");
            }
            name => Unsupported::of(name).add_note(it, notes),
        }
    }
    if let Some((first, _)) = weights.first()
        && let Some((_, it)) = weights.iter().find(|(weight, _)| weight != first)
    {
        notes.unsupported(it, "weights are not supported and omitted");
    }
    upstream.max_connections = limits.iter().flatten().min().copied();
    if upstream.max_connections.is_some() && limits.iter().any(|limit| *limit != upstream.max_connections) {
        notes.changed(group, "`max_connections` applies to all servers: the smallest `max_conns` is used");
    }
    if upstream.max_connections.is_some_and(|max| max > u64::from(u32::MAX)) {
        upstream.max_connections = None;
    }
    if upstream.servers.is_empty() {
        return Err("no server of the upstream could be converted".to_owned());
    }
    Ok(upstream)
}

/// Validates a server address: a name or address with an optional port.
fn address(text: &str) -> Option<&str> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let six = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let valid_host = match six {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => is_host(host) || host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    };
    let valid_port = port
        .is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0));
    (valid_host && valid_port).then_some(text)
}
