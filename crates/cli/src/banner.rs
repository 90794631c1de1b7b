//! Startup banner: addresses, upstreams, rules and an example request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluicegate_config::settings::{Admin, Gateway, Listener, Server, Servers, Service, Settings, Upstream};

/// Banner of a gateway; `addresses` are in the order of its listeners.
pub(crate) fn gateway_banner(settings: &Settings, gateway: &Gateway, addresses: &[SocketAddr]) -> String {
    let mut lines = Vec::new();
    let listeners = || gateway.listen.iter().zip(addresses);
    lines.extend(listeners().map(|(listener, address)| format!("listening at {address}{}", protocol_name(listener))));
    lines.extend(gateway.upstreams.iter().map(|upstream| format!("upstream {}: {}", upstream.name, servers(upstream))));
    lines.push(match settings.rules.len() {
        0 => "no rules: all requests are admitted".to_owned(),
        1 => "1 rule".to_owned(),
        many => format!("{many} rules"),
    });
    let open = listeners().find(|(listener, _)| !listener.proxy_protocol);
    lines.extend(open.map(|(listener, address)| format!("try: curl -i {}", url(listener, *address))));
    lines.join("\n")
}

/// Banner of a decision server. `addresses` are in the order of its protocols, each followed by its Unix
/// socket, which has no address.
pub(crate) fn server_banner(server: &Server, addresses: &[Option<SocketAddr>]) -> String {
    let protocols = [
        ("Envoy rate limit service", &server.rls),
        ("HTTP decision server", &server.http),
        ("RESP decision server", &server.resp),
    ];
    let services = protocols.into_iter().filter_map(|(name, service)| Some((name, service.as_ref()?)));
    let endpoints = services.flat_map(|(name, service)| {
        let Service { address, unix, tls, .. } = service;
        let network = address.map(|_| (name, None, tls.is_some()));
        network.into_iter().chain(unix.as_deref().map(|path| (name, Some(path), false)))
    });
    let lines = endpoints.zip(addresses).map(|((name, path, tls), address)| match (path, address) {
        (Some(path), _) => format!("{name} at {path}"),
        (None, Some(address)) => format!("{name} at {address}{}", if tls { " with TLS" } else { "" }),
        (None, None) => name.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Banner of the admin API at this address.
pub(crate) fn admin_banner(admin: &Admin, address: Option<SocketAddr>) -> String {
    let scheme = if admin.tls.is_some() { "https" } else { "http" };
    let address = reachable_address(address.unwrap_or(admin.listen));
    let note = if admin.token_file.is_some() { "" } else { " (read-only: `admin.token_file` is not set)" };
    format!("dashboard at {scheme}://{address}/{note}")
}

fn protocol_name(listener: &Listener) -> &'static str {
    match (listener.tls.is_some(), listener.proxy_protocol) {
        (false, false) => "",
        (true, false) => " with TLS",
        (false, true) => " with the PROXY protocol",
        (true, true) => " with TLS and the PROXY protocol",
    }
}

fn servers(upstream: &Upstream) -> String {
    match &upstream.servers {
        Servers::Builtin => "built-in demo".to_owned(),
        Servers::Urls(urls) => urls.join(", "),
    }
}

/// URL of the listener for a client on this machine.
fn url(listener: &Listener, address: SocketAddr) -> String {
    let scheme = if listener.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/", reachable_address(address))
}

/// Address for a client on this machine: a wildcard address becomes loopback.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner_lines(file: &str, addresses: &[&str]) -> Vec<String> {
        let settings = sluicegate_config::parse("test", file).unwrap().settings;
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let gateway = settings.gateway.clone().unwrap();
        gateway_banner(&settings, &gateway, &addresses).lines().map(str::to_owned).collect()
    }

    #[test]
    fn first_run_banner_shows_an_example() {
        let file = include_str!("../../../examples/rules/first-run.yaml");
        assert_eq!(
            banner_lines(file, &["127.0.0.1:8080"]),
            [
                "listening at 127.0.0.1:8080",
                "upstream demo: built-in demo",
                "1 rule",
                "try: curl -i http://127.0.0.1:8080/",
            ]
        );
    }

    #[test]
    fn example_uses_a_publicly_reachable_listener() {
        let file = r#"
gateway:
  trusted_proxies: [10.0.0.0/8]
  listen:
    - { address: "0.0.0.0:80", proxy_protocol: true }
    - { address: "[::]:443", tls: { certificate: cert.pem, key: key.pem } }
  upstreams: { shop: ["http://127.0.0.1:9001", "http://127.0.0.1:9002"] }
  routes: [{ path: "/{*rest}", upstream: shop }]
"#;
        assert_eq!(
            banner_lines(file, &["0.0.0.0:80", "[::]:443"]),
            [
                "listening at 0.0.0.0:80 with the PROXY protocol",
                "listening at [::]:443 with TLS",
                "upstream shop: http://127.0.0.1:9001, http://127.0.0.1:9002",
                "no rules: all requests are admitted",
                "try: curl -i https://[::1]:443/",
            ]
        );
    }
}
