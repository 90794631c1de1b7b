//! Envoy's process, with a configuration of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::super::support::HANGING;
use super::get;

/// Where `scripts/envoy` puts it.
const BINARY: &str = "../../target/tests/envoy-1.40.0/bin/envoy";

/// An Envoy that is ended when dropped.
pub(super) struct Envoy {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// Ended with it.
    _process: Process,
}

struct Process {
    child: Child,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Envoy {
    /// Before this upstream, asking this service about paths in a domain; `more` is said of the route's limit.
    pub(super) async fn start(domain: &str, upstream: SocketAddr, service: SocketAddr, more: &str) -> Self {
        Self::started(&configuration(domain, upstream, service, more, false)).await
    }

    /// As [`Envoy::start`], refusing what it cannot ask about.
    pub(super) async fn start_denying(domain: &str, upstream: SocketAddr, service: SocketAddr) -> Self {
        Self::started(&configuration(domain, upstream, service, "", true)).await
    }

    async fn started(configuration: &str) -> Self {
        static NTH: AtomicU32 = AtomicU32::new(0);
        let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join(BINARY);
        assert!(binary.exists(), "there is no Envoy at {}: run scripts/setup test", binary.display());
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-envoy-{}-{nth}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("envoy.yaml"), configuration).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = Command::new(&binary)
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn", "--config-path"])
            .arg(folder.join("envoy.yaml"))
            .arg("--admin-address-path")
            .arg(folder.join("admin"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut process = Process { child, folder };
        let address = timeout(HANGING, process.address()).await;
        let said = || fs::read_to_string(process.folder.join("log")).unwrap_or_default();
        let address = address.unwrap_or_else(|_| panic!("Envoy does not come up: {}", said()));
        Self { address, _process: process }
    }
}

impl Process {
    /// Where it listens, once it does.
    async fn address(&mut self) -> SocketAddr {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let said = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("Envoy ended with {status}: {said}");
            }
            let admin = fs::read_to_string(self.folder.join("admin")).ok();
            if let Some(admin) = admin.and_then(|admin| admin.trim().parse::<SocketAddr>().ok())
                && get(admin, "/ready").await.status == 200
            {
                let listeners = get(admin, "/listeners").await.body;
                let listeners = String::from_utf8_lossy(&listeners).into_owned();
                if let Some(address) = listeners.trim().strip_prefix("ingress::") {
                    return address.parse().unwrap();
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn configuration(domain: &str, upstream: SocketAddr, service: SocketAddr, more: &str, deny: bool) -> String {
    let endpoint = |address: SocketAddr| {
        let (ip, port) = (address.ip(), address.port());
        format!("endpoint: {{address: {{socket_address: {{address: {ip}, port_value: {port}}}}}}}")
    };
    let (upstream, service) = (endpoint(upstream), endpoint(service));
    format!(
        r#"
admin:
  address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
static_resources:
  listeners:
  - name: ingress
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
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
                grpc_service: {{envoy_grpc: {{cluster_name: ratelimit}}}}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: upstream
    type: STATIC
    load_assignment: {{cluster_name: upstream, endpoints: [{{lb_endpoints: [{{{upstream}}}]}}]}}
  - name: ratelimit
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment: {{cluster_name: ratelimit, endpoints: [{{lb_endpoints: [{{{service}}}]}}]}}
"#
    )
}
