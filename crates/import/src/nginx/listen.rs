//! Converts `listen` directives to listeners.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::directive::Directive;
use super::note::Notes;
use super::unit::is_file;
use super::unsupported::Unsupported;
use super::yaml;

/// A listen address with its protocol options.
#[derive(Debug, PartialEq, Eq)]
struct ListenerConfig {
    address: SocketAddr,
    tls: Option<(String, String)>,
    proxy_protocol: bool,
    comment: String,
}

/// All listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    list: Vec<ListenerConfig>,
}

impl Listeners {
    /// Adds the listeners of a server; `outer` is the inherited certificate.
    pub(super) fn add(&mut self, server: &Directive, outer: &CertificateFiles, notes: &mut Notes) {
        let certificate = outer.enter_block(server.children());
        let ssl = server.children().iter().any(|it| it.name == "ssl" && it.is_on());
        let mut listens = server.children().iter().filter(|it| it.name == "listen").peekable();
        if listens.peek().is_none() {
            self.listen(server, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)), (ssl, false), &certificate, notes);
        }
        for it in listens {
            match address(it.first_arg()) {
                Ok(address) => {
                    let has_option = |name: &str| it.args.iter().skip(1).any(|arg| arg == name);
                    self.options(it, notes);
                    if has_option("quic") {
                        notes.unsupported(it, "HTTP/3 is not supported; clients fall back to HTTP/2");
                        continue;
                    }
                    let protocols = (ssl || has_option("ssl"), has_option("proxy_protocol"));
                    self.listen(it, address, protocols, &certificate, notes);
                }
                Err(reason) => notes.unsupported(it, reason),
            }
        }
    }

    fn options(&self, it: &Directive, notes: &mut Notes) {
        let is_known = |arg: &str| {
            let ignorable = [
                "ssl",
                "http2",
                "quic",
                "proxy_protocol",
                "default_server",
                "default",
                "reuseport",
                "deferred",
                "bind",
            ];
            ignorable.contains(&arg) || arg.starts_with("ipv6only=") || arg.starts_with("so_keepalive=")
        };
        for arg in it.args.iter().skip(1).filter(|arg| !is_known(arg)) {
            notes.unsupported(it, format!("unsupported listener option `{arg}`; remove it"));
        }
    }

    fn listen(
        &mut self,
        it: &Directive,
        address: SocketAddr,
        (ssl, proxy_protocol): (bool, bool),
        certificate: &CertificateFiles,
        notes: &mut Notes,
    ) {
        let tls = match (ssl, &certificate.chain, &certificate.key) {
            (false, ..) => None,
            (true, Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
            (true, ..) => {
                notes.unsupported(it, "no fixed certificate and key found; add `tls` manually");
                return;
            }
        };
        if let Some(known) = self.list.iter_mut().find(|known| known.address == address) {
            known.proxy_protocol |= proxy_protocol;
            if known.tls.is_none() {
                known.tls = tls;
            } else if tls.is_some() && known.tls != tls {
                notes.unsupported(
                    it,
                    "a listener has one certificate: use one certificate for all names, or separate listeners",
                );
            }
            return;
        }
        let comment = format!("{}: {it}", it.location);
        self.list.push(ListenerConfig { address, tls, proxy_protocol, comment });
    }

    /// True if a listener expects the PROXY protocol.
    pub(super) fn uses_proxy_protocol(&self) -> bool {
        self.list.iter().any(|it| it.proxy_protocol)
    }

    /// Disables the PROXY protocol, because no proxy is trusted.
    pub(super) fn disable_proxy_protocol(&mut self) {
        self.list.iter_mut().for_each(|it| it.proxy_protocol = false);
    }

    /// Renders the value of `listen` as YAML.
    pub(super) fn yaml(&self) -> Vec<String> {
        // A wildcard address occupies the port on all interfaces.
        let covered = |it: &ListenerConfig| {
            self.list.iter().any(|other| {
                other.address != it.address
                    && other.address.ip().is_unspecified()
                    && other.address.port() == it.address.port()
                    && other.address.is_ipv4() == it.address.is_ipv4()
            })
        };
        let mut lines = Vec::new();
        for it in self.list.iter().filter(|it| !covered(it)) {
            lines.push(yaml::comment(&it.comment));
            let address = yaml::quoted(&it.address.to_string());
            if it.tls.is_none() && !it.proxy_protocol {
                lines.push(format!("- {address}"));
                continue;
            }
            let mut fields = vec![("address", address)];
            if let Some((chain, key)) = &it.tls {
                fields.push(("tls", yaml::map([("certificate", yaml::quoted(chain)), ("key", yaml::quoted(key))])));
            }
            if it.proxy_protocol {
                fields.push(("proxy_protocol", "true".to_owned()));
            }
            lines.push(format!("- {}", yaml::map(fields)));
        }
        lines
    }
}

/// Certificate and key files, if configured.
#[derive(Clone, Debug, Default)]
pub(super) struct CertificateFiles {
    chain: Option<String>,
    key: Option<String>,
}

impl CertificateFiles {
    /// Returns the certificate in effect in a nested block.
    pub(super) fn enter_block(&self, block: &[Directive]) -> Self {
        let file = |name: &str| {
            let found = block.iter().find(|it| it.name == name);
            found.map(Directive::first_arg).filter(|name| is_file(name) && !name.contains(':')).map(str::to_owned)
        };
        let chain = file("ssl_certificate").or_else(|| self.chain.clone());
        Self { chain, key: file("ssl_certificate_key").or_else(|| self.key.clone()) }
    }
}

/// `80`, `*:80`, `127.0.0.1`, `127.0.0.1:80`, `[::]:80` or `localhost:80`.
fn address(text: &str) -> Result<SocketAddr, String> {
    if text.starts_with("unix:") {
        return Err("only TCP listeners are converted; listen on a loopback address".to_owned());
    }
    let port =
        |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0 && text.bytes().all(|b| b.is_ascii_digit()));
    if let Some(port) = port(text) {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    let (host, at) = match text.rsplit_once(':') {
        Some((host, at)) if !at.ends_with(']') => (host, port(at)),
        _ => (text, Some(80)),
    };
    let ip = match host {
        "*" => Some(IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        "localhost" => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        host => match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(six) => six.parse().ok().filter(IpAddr::is_ipv6),
            None => host.parse().ok().filter(IpAddr::is_ipv4),
        },
    };
    match (ip, at) {
        (Some(ip), Some(at)) => Ok(SocketAddr::new(ip, at)),
        _ => Err(format!("invalid address and port '{text}'")),
    }
}

/// True if a server directive configures its listeners or needs no note.
pub(super) fn is_listener_directive(it: &Directive) -> bool {
    matches!(it.name.as_str(), "listen" | "ssl_certificate" | "ssl_certificate_key" | "ssl")
        || Unsupported::of(&it.name) == Unsupported::Ignorable
}
