//! Where servers listen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::directive::Directive;
use super::known::Known;
use super::remark::Remarks;
use super::unit::is_file;
use super::yaml;

/// An address, and what is spoken there.
#[derive(Debug, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    tls: Option<(String, String)>,
    proxy_protocol: bool,
    comment: String,
}

/// All listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    list: Vec<Listener>,
}

impl Listeners {
    /// Takes up where a server listens; the certificate around it counts where it has none.
    pub(super) fn add(&mut self, server: &Directive, around: &Certificate, remarks: &mut Remarks) {
        let certificate = around.within(server.inner());
        let ssl = server.inner().iter().any(|it| it.name == "ssl" && it.is_on());
        let mut listens = server.inner().iter().filter(|it| it.name == "listen").peekable();
        if listens.peek().is_none() {
            self.listen(server, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)), (ssl, false), &certificate, remarks);
        }
        for it in listens {
            match address(it.first()) {
                Ok(address) => {
                    let says = |name: &str| it.args.iter().skip(1).any(|arg| arg == name);
                    self.options(it, remarks);
                    if says("quic") {
                        remarks.not_carried(it, "HTTP/3 is not spoken; clients fall back to HTTP/2");
                        continue;
                    }
                    let spoken = (ssl || says("ssl"), says("proxy_protocol"));
                    self.listen(it, address, spoken, &certificate, remarks);
                }
                Err(why) => remarks.not_carried(it, why),
            }
        }
    }

    fn options(&self, it: &Directive, remarks: &mut Remarks) {
        let needless = |arg: &str| {
            let plain = [
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
            plain.contains(&arg) || arg.starts_with("ipv6only=") || arg.starts_with("so_keepalive=")
        };
        for arg in it.args.iter().skip(1).filter(|arg| !needless(arg)) {
            remarks.not_carried(it, format!("`{arg}` cannot be said of a listener here; leave it out"));
        }
    }

    fn listen(
        &mut self,
        it: &Directive,
        address: SocketAddr,
        (ssl, proxy_protocol): (bool, bool),
        certificate: &Certificate,
        remarks: &mut Remarks,
    ) {
        let tls = match (ssl, &certificate.chain, &certificate.key) {
            (false, ..) => None,
            (true, Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
            (true, ..) => {
                remarks.not_carried(it, "there is no fixed certificate and key for it; add `tls` by hand");
                return;
            }
        };
        if let Some(known) = self.list.iter_mut().find(|known| known.address == address) {
            known.proxy_protocol |= proxy_protocol;
            if known.tls.is_none() {
                known.tls = tls;
            } else if tls.is_some() && known.tls != tls {
                remarks.not_carried(it, "a listener has one certificate: put all the names into one, or listen apart");
            }
            return;
        }
        let comment = format!("{}: {it}", it.place);
        self.list.push(Listener { address, tls, proxy_protocol, comment });
    }

    /// Whether a listener expects the PROXY protocol.
    pub(super) fn expect_proxy_line(&self) -> bool {
        self.list.iter().any(|it| it.proxy_protocol)
    }

    /// Leaves the PROXY protocol out: nobody is trusted to speak it.
    pub(super) fn without_proxy_line(&mut self) {
        self.list.iter_mut().for_each(|it| it.proxy_protocol = false);
    }

    /// The value of `listen`, as YAML.
    pub(super) fn yaml(&self) -> Vec<String> {
        // An address of all interfaces takes the port of each of them.
        let covered = |it: &Listener| {
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

/// The files of a certificate, as far as they are said.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificate {
    chain: Option<String>,
    key: Option<String>,
}

impl Certificate {
    /// What holds in a block within this place.
    pub(super) fn within(&self, block: &[Directive]) -> Self {
        let said = |name: &str| {
            let found = block.iter().find(|it| it.name == name);
            found.map(Directive::first).filter(|file| is_file(file) && !file.contains(':')).map(str::to_owned)
        };
        let chain = said("ssl_certificate").or_else(|| self.chain.clone());
        Self { chain, key: said("ssl_certificate_key").or_else(|| self.key.clone()) }
    }
}

/// `80`, `*:80`, `127.0.0.1`, `127.0.0.1:80`, `[::]:80` or `localhost:80`.
fn address(text: &str) -> Result<SocketAddr, String> {
    if text.starts_with("unix:") {
        return Err("listeners are of TCP; listen on a loopback address".to_owned());
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
        _ => Err(format!("'{text}' is no address and port")),
    }
}

/// Whether a directive of a server is about its listeners, or needs no word.
pub(super) fn is_of_listeners(it: &Directive) -> bool {
    matches!(it.name.as_str(), "listen" | "ssl_certificate" | "ssl_certificate_key" | "ssl")
        || Known::of(&it.name) == Known::Needless
}
