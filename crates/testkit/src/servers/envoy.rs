//! Envoy with its HTTP rate limit filter.
//!
//! It stands before an upstream and asks a rate limit service about the path of every request, in one domain.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder::Folder;
use super::process::{Process, StartError, free_ports, with_retries};

const PROGRAM: &str = "envoy";

/// Where `scripts/envoy` puts it.
const BINARY: &str = "../../target/tests/envoy-1.40.0/bin/envoy";

/// An Envoy of a test's own.
#[derive(Debug)]
pub struct Envoy {
    port: u16,
    _process: Process,
    _folder: Folder,
}

/// How an Envoy asks.
#[derive(Clone, Debug)]
pub struct Asking {
    /// What it stands before.
    pub upstream: SocketAddr,
    /// The domain it asks in.
    pub domain: &'static str,
    /// Where the rate limit service is.
    pub service: Service,
    /// What it shows the service: `authorization: Bearer` and this.
    pub secret: Option<&'static str>,
    /// Whether it refuses what it cannot ask about.
    pub deny: bool,
    /// More that is said of the route's limit, in YAML.
    pub more: &'static str,
}

/// Where a rate limit service is.
#[derive(Clone, Debug)]
pub enum Service {
    /// At an address.
    Tcp(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
    /// At an address, over TLS.
    Tls {
        /// The address.
        at: SocketAddr,
        /// The authority that is trusted, in PEM.
        authority: PathBuf,
        /// What is shown if the service asks for it: a certificate and its key, in PEM.
        shows: Option<(PathBuf, PathBuf)>,
    },
}

impl Envoy {
    /// Starts one and waits until it serves.
    pub fn start(asking: &Asking) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(asking))
    }

    fn try_start(asking: &Asking) -> Result<Self, StartError> {
        let folder = Folder::new(PROGRAM)?;
        let [port, admin] = free_ports()?;
        let file = folder.path().join("envoy.yaml");
        fs::write(&file, configuration(asking, port, admin))?;
        let log = folder.path().join("log");
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(BINARY));
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn", "--config-path"]).arg(file);
        let mut process = Process::start(PROGRAM, &mut command, &log)?;
        process.wait_for(admin, b"GET /ready HTTP/1.1\r\nhost: envoy\r\n\r\n", b"HTTP/1.1 200", &log)?;
        Ok(Self { port, _process: process, _folder: folder })
    }

    /// Where it serves its clients.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

fn socket_address(address: SocketAddr) -> String {
    format!("{{socket_address: {{address: \"{}\", port_value: {}}}}}", address.ip(), address.port())
}

/// The service's address, and how it is connected to.
fn service_lines(service: &Service) -> (String, String) {
    match service {
        Service::Tcp(at) => (socket_address(*at), String::new()),
        Service::Unix(path) => (format!("{{pipe: {{path: {path:?}}}}}"), String::new()),
        Service::Tls { at, authority, shows } => {
            let mut context = format!(
                "alpn_protocols: [h2], validation_context: {{trusted_ca: {{filename: {authority:?}}}, \
                 match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: localhost}}}}]}}"
            );
            if let Some((certificate, key)) = shows {
                let pair =
                    format!("certificate_chain: {{filename: {certificate:?}}}, private_key: {{filename: {key:?}}}");
                // Writing to a string cannot fail.
                let _ = write!(context, ", tls_certificates: [{{{pair}}}]");
            }
            let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
            let socket = format!(
                "transport_socket:\n      name: envoy.transport_sockets.tls\n      typed_config: \
                 {{\"@type\": {kind}, sni: localhost, common_tls_context: {{{context}}}}}"
            );
            (socket_address(*at), socket)
        }
    }
}

fn configuration(asking: &Asking, port: u16, admin: u16) -> String {
    let Asking { upstream, domain, service, secret, deny, more } = asking;
    let [listener, admin] = [port, admin].map(|port| socket_address(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    let upstream = socket_address(*upstream);
    let (service, transport) = service_lines(service);
    let shown = secret.map_or_else(String::new, |secret| {
        format!(", initial_metadata: [{{key: authorization, value: \"Bearer {secret}\"}}]")
    });
    format!(
        r#"
admin: {{address: {admin}}}
static_resources:
  listeners:
  - name: ingress
    address: {listener}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
                route: {{cluster: upstream}}
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions:
                      - request_headers: {{header_name: ":path", descriptor_key: path}}
                      {more}
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: {domain}
              timeout: 10s
              failure_mode_deny: {deny}
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: ratelimit}}{shown}}}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: upstream
    type: STATIC
    load_assignment:
      cluster_name: upstream
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {upstream}}}}}]}}]
  - name: ratelimit
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment:
      cluster_name: ratelimit
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {service}}}}}]}}]
    {transport}
"#
    )
}
