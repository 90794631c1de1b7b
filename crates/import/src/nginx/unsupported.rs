//! Directives that are not converted: harmless ones, and alternatives for the others.

use super::directive::Directive;
use super::note::Notes;

/// Handling of a directive that is not converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsupported {
    /// Implied by Sluicegate, or unrelated to requests.
    Ignorable,
    /// Not converted; the text names an alternative.
    Alternative(&'static str),
    /// Supported, but not in this context.
    Misplaced,
    Unknown,
}

impl Unsupported {
    /// Returns the handling of the directive with this name.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "user"
            | "pid"
            | "daemon"
            | "master_process"
            | "error_log"
            | "events"
            | "sendfile"
            | "sendfile_max_chunk"
            | "tcp_nopush"
            | "tcp_nodelay"
            | "default_type"
            | "types"
            | "types_hash_max_size"
            | "types_hash_bucket_size"
            | "server_tokens"
            | "log_format"
            | "worker_rlimit_nofile"
            | "worker_priority"
            | "worker_cpu_affinity"
            | "pcre_jit"
            | "server_names_hash_bucket_size"
            | "server_names_hash_max_size"
            | "map_hash_bucket_size"
            | "map_hash_max_size"
            | "variables_hash_bucket_size"
            | "variables_hash_max_size"
            | "proxy_http_version"
            | "proxy_buffering"
            | "proxy_request_buffering"
            | "proxy_buffer_size"
            | "proxy_buffers"
            | "proxy_busy_buffers_size"
            | "proxy_redirect"
            | "proxy_socket_keepalive"
            | "limit_req_log_level"
            | "limit_conn_log_level"
            | "log_not_found"
            | "http2"
            | "keepalive"
            | "keepalive_timeout"
            | "keepalive_requests"
            | "keepalive_time"
            | "zone"
            | "ssl_session_cache"
            | "ssl_session_timeout"
            | "ssl_session_tickets"
            | "ssl_prefer_server_ciphers"
            | "real_ip_recursive"
            | "reset_timedout_connection"
            | "large_client_header_buffers"
            | "client_header_buffer_size"
            | "client_body_buffer_size"
            | "ssl" => Self::Ignorable,
            "allow"
            | "deny"
            | "satisfy"
            | "auth_basic"
            | "auth_basic_user_file"
            | "auth_request"
            | "auth_jwt"
            | "limit_except"
            | "ssl_verify_client"
            | "ssl_client_certificate"
            | "internal" => Self::Alternative(
                "access control is not supported: the response is 403 until the route is changed manually",
            ),
            "root" | "alias" | "index" | "autoindex" | "try_files" | "expires" => {
                Self::Alternative("files are not served: use a file server as an upstream")
            }
            "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "grpc_pass" | "memcached_pass" => {
                Self::Alternative("upstreams use HTTP: add a server for that protocol, or use `protocol: http2`")
            }
            "rewrite" | "if" | "set" | "error_page" | "sub_filter" => {
                Self::Alternative("requests are not rewritten: add routes for the intended paths")
            }
            "gzip" | "gzip_types" | "gzip_vary" | "gzip_proxied" | "gzip_min_length" | "gzip_comp_level" | "brotli"
            | "gzip_disable" | "gzip_http_version" | "gzip_buffers" => {
                Self::Alternative("responses are forwarded unchanged: compress in the upstream application")
            }
            "proxy_cache"
            | "proxy_cache_path"
            | "proxy_cache_valid"
            | "proxy_cache_key"
            | "proxy_cache_bypass"
            | "proxy_no_cache"
            | "proxy_cache_use_stale" => {
                Self::Alternative("responses are not cached: cache in the upstream application")
            }
            "add_header" | "proxy_hide_header" | "proxy_pass_header" | "more_set_headers" => {
                Self::Alternative("headers are forwarded unchanged: set them in the upstream application")
            }
            "client_max_body_size" => {
                Self::Alternative("body size is not limited: limit it in the upstream application")
            }
            "proxy_send_timeout" => Self::Alternative("use the timeouts `request_body` and `response`"),
            "proxy_next_upstream" | "proxy_next_upstream_tries" | "proxy_next_upstream_timeout" => {
                Self::Alternative("use `retries` of the upstream; only requests that are safe to repeat are retried")
            }
            "ssl_protocols"
            | "ssl_ciphers"
            | "ssl_dhparam"
            | "ssl_ecdh_curve"
            | "ssl_stapling"
            | "ssl_stapling_verify"
            | "ssl_trusted_certificate" => Self::Alternative("only TLS 1.2 and 1.3 with secure ciphers are supported"),
            "proxy_ssl_verify" | "proxy_ssl_trusted_certificate" | "proxy_ssl_name" | "proxy_ssl_server_name" => {
                Self::Alternative("upstream certificates are always verified: set `ca` of the upstream")
            }
            "worker_connections" => Self::Alternative("use `connections: { max: ... }`"),
            "stream" | "mail" => Self::Alternative("only HTTP is converted"),
            "limit_req_zone"
            | "limit_conn_zone"
            | "limit_req"
            | "limit_conn"
            | "upstream"
            | "server"
            | "location"
            | "geo"
            | "map"
            | "listen"
            | "server_name"
            | "proxy_pass"
            | "return"
            | "set_real_ip_from"
            | "real_ip_header"
            | "ssl_certificate"
            | "ssl_certificate_key"
            | "client_header_timeout"
            | "client_body_timeout"
            | "send_timeout"
            | "worker_processes"
            | "access_log"
            | "include" => Self::Misplaced,
            _ => Self::Unknown,
        }
    }

    /// Adds the note, if one is needed.
    pub(super) fn add_note(self, directive: &Directive, notes: &mut Notes) {
        match self {
            Self::Ignorable => {}
            Self::Alternative(reason) => notes.unsupported(directive, reason),
            Self::Misplaced => notes.unsupported(directive, "not supported in this block"),
            Self::Unknown => {
                notes.unsupported(directive, "no equivalent; remove it, or implement it in the upstream application");
            }
        }
    }
}
