//! Directives that are not carried over: which need no word, and what to do about the others.

use super::directive::Directive;
use super::remark::Remarks;

/// What there is to say about a directive that is not carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It goes without saying here, or says nothing about requests.
    Needless,
    /// This is to be done instead.
    Instead(&'static str),
    /// It is read elsewhere, in its proper place.
    Misplaced,
    Unknown,
}

impl Known {
    /// What there is to say about the directive of this name.
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
            | "ssl" => Self::Needless,
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
            | "internal" => {
                Self::Instead("the gateway keeps nobody out so: answered with 403 until the route is changed by hand")
            }
            "root" | "alias" | "index" | "autoindex" | "try_files" | "expires" => {
                Self::Instead("files are not served: put a file server behind, as an upstream")
            }
            "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "grpc_pass" | "memcached_pass" => {
                Self::Instead("upstreams speak HTTP: put a server of that protocol between, or use `protocol: http2`")
            }
            "rewrite" | "if" | "set" | "error_page" | "sub_filter" => {
                Self::Instead("requests are not rewritten: add routes for the paths that are meant")
            }
            "gzip" | "gzip_types" | "gzip_vary" | "gzip_proxied" | "gzip_min_length" | "gzip_comp_level" | "brotli"
            | "gzip_disable" | "gzip_http_version" | "gzip_buffers" => {
                Self::Instead("answers pass as they are: compress in the program behind")
            }
            "proxy_cache"
            | "proxy_cache_path"
            | "proxy_cache_valid"
            | "proxy_cache_key"
            | "proxy_cache_bypass"
            | "proxy_no_cache"
            | "proxy_cache_use_stale" => Self::Instead("nothing is cached: cache in the program behind"),
            "add_header" | "proxy_hide_header" | "proxy_pass_header" | "more_set_headers" => {
                Self::Instead("headers pass as they are: set them in the program behind")
            }
            "client_max_body_size" => Self::Instead("bodies have no bound of size here: let the program behind refuse"),
            "proxy_send_timeout" => Self::Instead("`request_body` and `answer` bound how long a request takes"),
            "proxy_next_upstream" | "proxy_next_upstream_tries" | "proxy_next_upstream_timeout" => {
                Self::Instead("`retries` of the upstream says how often; only what is safe is tried again")
            }
            "ssl_protocols"
            | "ssl_ciphers"
            | "ssl_dhparam"
            | "ssl_ecdh_curve"
            | "ssl_stapling"
            | "ssl_stapling_verify"
            | "ssl_trusted_certificate" => {
                Self::Instead("TLS 1.2 and 1.3 with sound ciphers are spoken, and nothing else")
            }
            "proxy_ssl_verify" | "proxy_ssl_trusted_certificate" | "proxy_ssl_name" | "proxy_ssl_server_name" => {
                Self::Instead("upstreams are always verified: `ca` of the upstream names who may vouch for it")
            }
            "worker_connections" => Self::Instead("`connections: { max: ... }` bounds the connections"),
            "stream" | "mail" => Self::Instead("only HTTP is carried over"),
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

    /// Says it.
    pub(super) fn remark(self, directive: &Directive, remarks: &mut Remarks) {
        match self {
            Self::Needless => {}
            Self::Instead(what) => remarks.not_carried(directive, what),
            Self::Misplaced => remarks.not_carried(directive, "it cannot be said for this place alone here"),
            Self::Unknown => {
                remarks.not_carried(directive, "there is nothing like it here; leave it out, or do it behind");
            }
        }
    }
}
