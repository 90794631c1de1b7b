//! Upstreams: the groups that `proxy_pass` names, or the servers it leads to.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::directive::Directive;
use super::force::{Force, Host, is_host};
use super::known::Known;
use super::remark::Remarks;
use super::yaml;

/// An upstream to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upstream {
    pub(super) servers: Vec<String>,
    least_in_flight: bool,
    connections: Option<u64>,
    host: Option<String>,
    connect: Option<String>,
    read: Option<String>,
    /// Where the group stands, if it is one.
    comment: Option<String>,
}

/// The upstreams that routes lead to.
#[derive(Default)]
pub(super) struct Upstreams<'a> {
    pub(super) groups: HashMap<&'a str, &'a Directive>,
    written: Vec<(String, Upstream)>,
    used: Vec<String>,
}

/// What `proxy_pass` says: the upstream's name, and the path that replaces the location's, if it says one.
pub(super) struct Target<'a> {
    scheme: &'a str,
    authority: &'a str,
    pub(super) path: Option<&'a str>,
}

impl<'a> Target<'a> {
    pub(super) fn read(directive: &'a Directive) -> Result<Self, String> {
        let url = directive.first();
        if url.contains('$') {
            return Err("upstreams are fixed; name one for each value of the variable".to_owned());
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            _ => return Err("it is no http:// or https:// URL".to_owned()),
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
            return Err("its path is not one that upstreams can have".to_owned());
        }
        Ok(Self { scheme, authority, path })
    }
}

const UNIX: &str = "upstreams are reached over TCP; let the program listen on an address";

impl<'a> Upstreams<'a> {
    /// The name of the upstream for this target, with this path before all paths.
    pub(super) fn name(
        &mut self,
        target: &Target<'_>,
        base: &str,
        force: &Force<'_>,
        remarks: &mut Remarks,
    ) -> Result<String, String> {
        self.used.push(target.authority.to_owned());
        let (wanted, mut upstream) = match self.groups.get(target.authority) {
            Some(group) => (target.authority.to_owned(), group_of(group, target.scheme, remarks)?),
            None => {
                let address = address(target.authority).ok_or("its host is not one that upstreams can have")?;
                let name = target.authority.replace([':', '[', ']'], "-");
                (name.trim_matches('-').to_owned(), Upstream::of(vec![format!("{}://{address}", target.scheme)]))
            }
        };
        let base = base.trim_end_matches('/');
        upstream.servers.iter_mut().for_each(|server| server.push_str(base));
        upstream.connect.clone_from(&force.connect);
        upstream.read.clone_from(&force.read);
        upstream.host = match &force.host {
            Host::Client => None,
            Host::Fixed(name) => Some(name.clone()),
            // nginx sends the name in `proxy_pass`, which for a group is the group's.
            Host::Proxied if self.groups.contains_key(target.authority) && is_host(target.authority) => {
                Some(target.authority.to_owned())
            }
            Host::Proxied => Some("server".to_owned()),
        };
        if let Some((name, _)) = self.written.iter().find(|(_, known)| *known == upstream) {
            return Ok(name.clone());
        }
        let clean: String = wanted.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
        let taken = |name: &String| self.written.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number: u64| format!("{clean}-{number}"));
        let name = std::iter::once(clean.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(clean);
        self.written.push((name.clone(), upstream));
        Ok(name)
    }

    /// The groups that no route leads to.
    pub(super) fn unused(&self) -> Vec<&'a Directive> {
        let unused = self.groups.iter().filter(|(name, _)| !self.used.iter().any(|used| used == *name));
        unused.map(|(_, directive)| *directive).collect()
    }

    /// All of them, as YAML.
    pub(super) fn yaml(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, upstream) in &self.written {
            lines.extend(upstream.comment.as_ref().map(|comment| yaml::comment(comment)));
            lines.push(format!("{}: {}", yaml::text(name), upstream.yaml()));
        }
        lines
    }
}

impl Upstream {
    const fn of(servers: Vec<String>) -> Self {
        Self {
            servers,
            least_in_flight: false,
            connections: None,
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
        fields.extend(self.connections.map(|most| ("connections", most.to_string())));
        fields.extend(self.host.as_ref().map(|host| ("host", yaml::text(host))));
        let connect = self.connect.iter().map(|time| ("connect", time.clone()));
        let read = self.read.iter().flat_map(|time| [("answer", time.clone()), ("body", time.clone())]);
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

fn group_of(group: &Directive, scheme: &str, remarks: &mut Remarks) -> Result<Upstream, String> {
    let mut upstream = Upstream::of(Vec::new());
    upstream.comment = Some(format!("{}: {group}", group.place));
    let mut weights: Vec<(&str, &Directive)> = Vec::new();
    let mut bounds: Vec<Option<u64>> = Vec::new();
    for it in group.inner() {
        match it.name.as_str() {
            "server" => {
                let said = |name: &str| it.args.iter().any(|arg| arg == name);
                if said("down") || said("backup") {
                    remarks.not_carried(it, "all servers of an upstream are equal; this one is left out");
                    continue;
                }
                let Some(address) = address(it.first()) else {
                    let unix = it.first().starts_with("unix:");
                    remarks.not_carried(it, if unix { UNIX } else { "its address is not one that upstreams can have" });
                    continue;
                };
                let mut weight = "1";
                let mut bound = None;
                for arg in it.args.iter().skip(1) {
                    match arg.split_once('=') {
                        Some(("weight", text)) => weight = text,
                        Some(("max_conns", text)) => bound = text.parse().ok().filter(|most| *most > 0),
                        Some(("max_fails" | "fail_timeout", _)) => {
                            remarks.not_carried(it, "failures are not counted so: give the upstream a `health` check");
                        }
                        _ => remarks.not_carried(it, format!("`{arg}` is not known here")),
                    }
                }
                weights.push((weight, it));
                bounds.push(bound);
                upstream.servers.push(format!("{scheme}://{address}"));
            }
            "least_conn" => upstream.least_in_flight = true,
            "ip_hash" | "hash" | "random" | "sticky" => {
                remarks.not_carried(it, "servers are asked in turn, or the one with the fewest requests: `balance`");
            }
            name => Known::of(name).remark(it, remarks),
        }
    }
    if let Some((first, _)) = weights.first()
        && let Some((_, it)) = weights.iter().find(|(weight, _)| weight != first)
    {
        remarks.not_carried(it, "all servers of an upstream are equal; the weights are left out");
    }
    upstream.connections = bounds.iter().flatten().min().copied();
    if upstream.connections.is_some() && bounds.iter().any(|bound| *bound != upstream.connections) {
        remarks.changed(group, "`connections` is the same for all servers: the smallest `max_conns` is taken");
    }
    if upstream.connections.is_some_and(|most| most > u64::from(u32::MAX)) {
        upstream.connections = None;
    }
    if upstream.servers.is_empty() {
        return Err("its upstream has no server that can be carried over".to_owned());
    }
    Ok(upstream)
}

/// A server's address, if it is one: a name or address, perhaps with a port.
fn address(text: &str) -> Option<&str> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let six = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good_host = match six {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => is_host(host) || host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    };
    let good_port = port
        .is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0));
    (good_host && good_port).then_some(text)
}
