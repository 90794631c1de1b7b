//! What a gateway says when it begins to serve: where, for whom, by which rules, and what to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluicegate_config::settings::{Admin, Gateway, Listener, Server, Servers, Service, Settings, Upstream};

/// The greeting of a gateway that listens at these addresses, which are those of its listeners in their order.
pub(crate) fn greeting(settings: &Settings, gateway: &Gateway, addresses: &[SocketAddr]) -> String {
    let mut lines = Vec::new();
    let listeners = || gateway.listen.iter().zip(addresses);
    lines.extend(listeners().map(|(listener, address)| format!("listening at {address}{}", spoken(listener))));
    lines.extend(gateway.upstreams.iter().map(|upstream| format!("upstream {}: {}", upstream.name, servers(upstream))));
    lines.push(match settings.rules.len() {
        0 => "no rules: everything is let through".to_owned(),
        1 => "1 rule".to_owned(),
        many => format!("{many} rules"),
    });
    let open = listeners().find(|(listener, _)| !listener.proxy_protocol);
    lines.extend(open.map(|(listener, address)| format!("try: curl -i {}", url(listener, *address))));
    lines.join("\n")
}

/// The greeting of a decision server; its addresses are in the order of its protocols, each followed by that of its
/// Unix socket, which has none.
pub(crate) fn server_greeting(server: &Server, addresses: &[Option<SocketAddr>]) -> String {
    let protocols = [("Envoy's rate limit service", &server.rls), ("HTTP", &server.http), ("RESP", &server.resp)];
    let services = protocols.into_iter().filter_map(|(name, service)| Some((name, service.as_ref()?)));
    let places = services.flat_map(|(name, service)| {
        let Service { address, unix, tls, .. } = service;
        let network = address.map(|_| (name, None, tls.is_some()));
        network.into_iter().chain(unix.as_deref().map(|path| (name, Some(path), false)))
    });
    let lines = places.zip(addresses).map(|((name, path, tls), address)| match (path, address) {
        (Some(path), _) => format!("decisions by {name} at {path}"),
        (None, Some(address)) => format!("decisions by {name} at {address}{}", if tls { " with TLS" } else { "" }),
        (None, None) => format!("decisions by {name}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The greeting of the admin pages, which listen there.
pub(crate) fn admin_greeting(admin: &Admin, address: Option<SocketAddr>) -> String {
    let scheme = if admin.tls.is_some() { "https" } else { "http" };
    let address = reachable(address.unwrap_or(admin.listen));
    let who = if admin.token.is_some() { "" } else { " (read only: there is no `admin.token`)" };
    format!("dashboard at {scheme}://{address}/{who}")
}

fn spoken(listener: &Listener) -> &'static str {
    match (listener.tls.is_some(), listener.proxy_protocol) {
        (false, false) => "",
        (true, false) => " with TLS",
        (false, true) => " behind PROXY lines",
        (true, true) => " with TLS behind PROXY lines",
    }
}

fn servers(upstream: &Upstream) -> String {
    match &upstream.servers {
        Servers::Builtin => "the built-in demo".to_owned(),
        Servers::Urls(urls) => urls.join(", "),
    }
}

/// How this machine gets there.
fn url(listener: &Listener, address: SocketAddr) -> String {
    let scheme = if listener.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/", reachable(address))
}

/// The address by which this machine gets to whoever listens at this one.
fn reachable(address: SocketAddr) -> SocketAddr {
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

    fn said(file: &str, addresses: &[&str]) -> Vec<String> {
        let settings = sluicegate_config::parse("test", file).unwrap().settings;
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let gateway = settings.gateway.clone().unwrap();
        greeting(&settings, &gateway, &addresses).lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_first_run_says_what_to_try() {
        let file = include_str!("../../../examples/rules/first-run.yaml");
        assert_eq!(
            said(file, &["127.0.0.1:8080"]),
            [
                "listening at 127.0.0.1:8080",
                "upstream demo: the built-in demo",
                "1 rule",
                "try: curl -i http://127.0.0.1:8080/",
            ]
        );
    }

    #[test]
    fn what_is_tried_is_where_anybody_may_come_in() {
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
            said(file, &["0.0.0.0:80", "[::]:443"]),
            [
                "listening at 0.0.0.0:80 behind PROXY lines",
                "listening at [::]:443 with TLS",
                "upstream shop: http://127.0.0.1:9001, http://127.0.0.1:9002",
                "no rules: everything is let through",
                "try: curl -i https://[::1]:443/",
            ]
        );
    }
}
