//! Directives in effect in a block: set there or inherited.

use super::directive::Directive;
use super::note::Notes;
use super::unit;

/// A `limit_req` directive.
#[derive(Clone, Debug)]
pub(super) struct LimitReq<'a> {
    pub(super) zone: &'a str,
    pub(super) burst: u64,
    /// Number of burst requests that pass without delay.
    pub(super) no_delay: u64,
    pub(super) directive: &'a Directive,
}

/// A `limit_conn` directive.
#[derive(Clone, Debug)]
pub(super) struct LimitConn<'a> {
    pub(super) zone: &'a str,
    pub(super) max: u64,
    pub(super) directive: &'a Directive,
}

/// `Host` header sent to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UpstreamHost {
    /// The name in `proxy_pass`, nginx's default.
    Proxied,
    /// The client's `Host`.
    Client,
    /// A fixed value.
    Fixed(String),
}

/// Directives in effect in a block.
#[derive(Clone, Debug)]
pub(super) struct InheritedDirectives<'a> {
    pub(super) limit_req: Vec<LimitReq<'a>>,
    pub(super) limit_conn: Vec<LimitConn<'a>>,
    pub(super) req_status: u64,
    pub(super) conn_status: u64,
    pub(super) req_dry_run: bool,
    pub(super) conn_dry_run: bool,
    /// Bytes per second, if limited.
    pub(super) rate: Option<(u64, &'a Directive)>,
    pub(super) rate_after: u64,
    /// An access control directive, which the gateway does not support.
    pub(super) access_control: Option<&'a Directive>,
    pub(super) host: UpstreamHost,
    pub(super) connect: Option<String>,
    pub(super) read: Option<String>,
}

impl Default for InheritedDirectives<'_> {
    fn default() -> Self {
        Self {
            limit_req: Vec::new(),
            limit_conn: Vec::new(),
            req_status: 503,
            conn_status: 503,
            req_dry_run: false,
            conn_dry_run: false,
            rate: None,
            rate_after: 0,
            access_control: None,
            host: UpstreamHost::Proxied,
            connect: None,
            read: None,
        }
    }
}

/// True for directives that [`InheritedDirectives::enter_block`] handles.
pub(super) fn is_inherited(name: &str) -> bool {
    matches!(
        name,
        "limit_req"
            | "limit_conn"
            | "limit_req_status"
            | "limit_conn_status"
            | "limit_req_dry_run"
            | "limit_conn_dry_run"
            | "limit_rate"
            | "limit_rate_after"
            | "proxy_set_header"
            | "proxy_connect_timeout"
            | "proxy_read_timeout"
    )
}

impl<'a> InheritedDirectives<'a> {
    /// Returns the directives in effect in a nested block.
    pub(super) fn enter_block(&self, block: &'a [Directive], notes: &mut Notes) -> Self {
        let mut inherited = self.clone();
        // Limits and headers are inherited only by blocks that set none themselves.
        let has = |name: &str| block.iter().any(|it| it.name == name);
        if has("limit_req") {
            inherited.limit_req.clear();
        }
        if has("limit_conn") {
            inherited.limit_conn.clear();
        }
        // A restricted location must not become open because the gateway does not support the restriction.
        for directive in block {
            match directive.name.as_str() {
                "auth_basic" | "auth_request" | "auth_jwt" | "ssl_verify_client" if directive.first_arg() == "off" => {
                    inherited.access_control = inherited.access_control.filter(|guard| guard.name != directive.name);
                }
                "allow" if directive.first_arg() == "all" => {}
                "auth_basic" | "auth_request" | "auth_jwt" | "ssl_verify_client" | "allow" | "deny"
                | "limit_except" | "internal" => inherited.access_control = Some(directive),
                _ => {}
            }
        }
        if has("proxy_set_header") {
            inherited.host = UpstreamHost::Proxied;
        }
        for directive in block.iter().filter(|it| is_inherited(&it.name)) {
            if let Err(reason) = inherited.apply(directive) {
                notes.unsupported(directive, reason);
            }
        }
        inherited
    }

    fn apply(&mut self, directive: &'a Directive) -> Result<(), String> {
        let first = directive.first_arg();
        let status = || match first.parse::<u64>() {
            Ok(status @ 400..=599) => Ok(status),
            _ => Err("the status must be a number from 400 to 599".to_owned()),
        };
        let time = || {
            let time = unit::time(first).and_then(unit::to_rule_time);
            time.ok_or_else(|| "the time must be greater than zero and at most one year".to_owned())
        };
        let size =
            || unit::size(first).ok_or_else(|| format!("'{first}' is not a fixed size; write the rule manually"));
        match directive.name.as_str() {
            "limit_req" => {
                let limit = limit_req(directive)?;
                if self.limit_req.iter().any(|known| known.zone == limit.zone) {
                    return Err("the zone is used twice in one block; remove one of them".to_owned());
                }
                self.limit_req.push(limit);
            }
            "limit_conn" => {
                let max = directive.args.get(1).and_then(|max| max.parse().ok()).filter(|max| *max > 0);
                let max = max.ok_or("missing number of connections: write limit_conn ZONE NUMBER")?;
                if self.limit_conn.iter().any(|known| known.zone == first) {
                    return Err("the zone is used twice in one block; remove one of them".to_owned());
                }
                self.limit_conn.push(LimitConn { zone: first, max, directive });
            }
            "limit_req_status" => self.req_status = status()?,
            "limit_conn_status" => self.conn_status = status()?,
            "limit_req_dry_run" => self.req_dry_run = directive.is_on(),
            "limit_conn_dry_run" => self.conn_dry_run = directive.is_on(),
            "limit_rate" => self.rate = Some(size()?).filter(|bytes| *bytes > 0).map(|bytes| (bytes, directive)),
            "limit_rate_after" => self.rate_after = size()?,
            "proxy_connect_timeout" => self.connect = Some(time()?),
            "proxy_read_timeout" => self.read = Some(time()?),
            _ => self.header(directive)?,
        }
        Ok(())
    }

    /// Handles `proxy_set_header`. The gateway sets the forwarding headers itself.
    fn header(&mut self, directive: &Directive) -> Result<(), String> {
        let value = directive.args.get(1).map_or("", String::as_str);
        match directive.first_arg().to_ascii_lowercase().as_str() {
            "host" => {
                self.host = match value {
                    "$host" | "$http_host" | "$host:$server_port" => UpstreamHost::Client,
                    "$proxy_host" => UpstreamHost::Proxied,
                    text if is_host(text) => UpstreamHost::Fixed(text.to_owned()),
                    _ => return Err("the `host` of an upstream must be client, server or a fixed name".to_owned()),
                }
            }
            "x-forwarded-for" | "x-real-ip" | "x-forwarded-proto" | "x-forwarded-host" | "forwarded" | "upgrade"
            | "connection" => {}
            _ => return Err("request headers are forwarded unchanged; set it in the upstream application".to_owned()),
        }
        Ok(())
    }
}

/// True for a host name without characters that need escaping.
pub(super) fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn limit_req(directive: &Directive) -> Result<LimitReq<'_>, String> {
    let (mut zone, mut burst, mut delay, mut nodelay) = (None, 0_u64, 0_u64, false);
    for arg in &directive.args {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("invalid number in '{arg}'"));
        match arg.split_once('=') {
            Some(("zone", name)) => zone = Some(name),
            Some(("burst", text)) => burst = number(text)?,
            Some(("delay", text)) => delay = number(text)?,
            None if arg == "nodelay" => nodelay = true,
            _ => return Err(format!("unknown parameter '{arg}'")),
        }
    }
    let zone = zone.ok_or("missing zone=NAME")?;
    let no_delay = if nodelay { burst } else { delay.min(burst) };
    Ok(LimitReq { zone, burst, no_delay, directive })
}
