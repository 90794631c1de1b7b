//! Envoy with its HTTP rate limit filter.
//!
//! It proxies to an upstream and checks the path of every request with a rate limit service, in one domain.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{ServerProcess, StartError, free_ports, with_retries};
use super::temp_dir::TempDir;

const PROGRAM: &str = "envoy";

/// Install path of `scripts/envoy`, relative to this crate.
const BINARY: &str = "../../target/tests/envoy-1.40.0/bin/envoy";

/// Envoy process for one test.
#[derive(Debug)]
pub struct Envoy {
    port: u16,
    _process: ServerProcess,
    _temp_dir: TempDir,
}

/// Configuration of an Envoy process.
#[derive(Clone, Debug)]
pub struct EnvoyConfig {
    /// Upstream address.
    pub upstream: SocketAddr,
    /// Rate limit domain.
    pub domain: &'static str,
    /// Endpoint of the rate limit service.
    pub service: RateLimitEndpoint,
    /// Secret sent to the service as `authorization: Bearer <secret>`.
    pub secret: Option<&'static str>,
    /// If set, Envoy refuses requests while the service is unreachable.
    pub failure_mode_deny: bool,
    /// Extra YAML for the route's rate limit.
    pub extra_yaml: &'static str,
}

/// Endpoint of a rate limit service.
#[derive(Clone, Debug)]
pub enum RateLimitEndpoint {
    /// TCP address.
    Tcp(SocketAddr),
    /// Unix socket path.
    Unix(PathBuf),
    /// TCP address with TLS.
    Tls {
        /// TCP address of the service.
        address: SocketAddr,
        /// Trusted CA, in PEM.
        ca: PathBuf,
        /// Client certificate and its key, in PEM.
        client_certificate: Option<(PathBuf, PathBuf)>,
    },
}

impl Envoy {
    /// Starts Envoy and waits until it is ready.
    pub fn start(config: &EnvoyConfig) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(config))
    }

    fn try_start(config: &EnvoyConfig) -> Result<Self, StartError> {
        let temp_dir = TempDir::new(PROGRAM)?;
        let [port, admin] = free_ports()?;
        let file = temp_dir.path().join("envoy.yaml");
        fs::write(&file, bootstrap_yaml(config, port, admin))?;
        let log = temp_dir.path().join("log");
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(BINARY));
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn", "--config-path"]).arg(file);
        let mut process = ServerProcess::start(PROGRAM, &mut command, &log)?;
        process.wait_for(admin, b"GET /ready HTTP/1.1\r\nhost: envoy\r\n\r\n", b"HTTP/1.1 200", &log)?;
        Ok(Self { port, _process: process, _temp_dir: temp_dir })
    }

    /// Listener address for clients.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

fn socket_address(address: SocketAddr) -> String {
    format!("{{socket_address: {{address: \"{}\", port_value: {}}}}}", address.ip(), address.port())
}

/// YAML of the service's address and of its transport socket.
fn service_yaml(service: &RateLimitEndpoint) -> (String, String) {
    match service {
        RateLimitEndpoint::Tcp(address) => (socket_address(*address), String::new()),
        RateLimitEndpoint::Unix(path) => (format!("{{pipe: {{path: {path:?}}}}}"), String::new()),
        RateLimitEndpoint::Tls { address, ca, client_certificate } => {
            let mut context = format!(
                "alpn_protocols: [h2], validation_context: {{trusted_ca: {{filename: {ca:?}}}, \
                 match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: localhost}}}}]}}"
            );
            if let Some((certificate, key)) = client_certificate {
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
            (socket_address(*address), socket)
        }
    }
}

fn bootstrap_yaml(config: &EnvoyConfig, port: u16, admin: u16) -> String {
    let EnvoyConfig { upstream, domain, service, secret, failure_mode_deny, extra_yaml } = config;
    let [listener, admin] = [port, admin].map(|port| socket_address(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    let upstream = socket_address(*upstream);
    let (service, transport) = service_yaml(service);
    let metadata = secret.map_or_else(String::new, |secret| {
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
                      {extra_yaml}
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: {domain}
              timeout: 10s
              failure_mode_deny: {failure_mode_deny}
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: ratelimit}}{metadata}}}
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
