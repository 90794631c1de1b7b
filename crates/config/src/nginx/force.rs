//! What is in force in a place: said there, or inherited from around it.

use super::directive::Directive;
use super::remark::Remarks;
use super::unit;

/// One `limit_req`.
#[derive(Clone, Debug)]
pub(super) struct LimitReq<'a> {
    pub(super) zone: &'a str,
    pub(super) burst: u64,
    /// How many of the burst pass without delay.
    pub(super) at_once: u64,
    pub(super) directive: &'a Directive,
}

/// One `limit_conn`.
#[derive(Clone, Debug)]
pub(super) struct LimitConn<'a> {
    pub(super) zone: &'a str,
    pub(super) most: u64,
    pub(super) directive: &'a Directive,
}

/// Which `Host` is sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// The name in `proxy_pass`, as nginx does unless told otherwise.
    Proxied,
    /// The client's.
    Client,
    /// This one.
    Fixed(String),
}

/// What is in force.
#[derive(Clone, Debug)]
pub(super) struct Force<'a> {
    pub(super) limit_req: Vec<LimitReq<'a>>,
    pub(super) limit_conn: Vec<LimitConn<'a>>,
    pub(super) req_status: u64,
    pub(super) conn_status: u64,
    pub(super) req_dry_run: bool,
    pub(super) conn_dry_run: bool,
    /// Bytes in a second, if bounded.
    pub(super) rate: Option<(u64, &'a Directive)>,
    pub(super) rate_after: u64,
    /// Who kept somebody out, if anybody: the gateway cannot.
    pub(super) guard: Option<&'a Directive>,
    pub(super) host: Host,
    pub(super) connect: Option<String>,
    pub(super) read: Option<String>,
}

impl Default for Force<'_> {
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
            guard: None,
            host: Host::Proxied,
            connect: None,
            read: None,
        }
    }
}

/// Whether this is one of the directives that [`Force::within`] looks at.
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

impl<'a> Force<'a> {
    /// What is in force in a block within this place.
    pub(super) fn within(&self, block: &'a [Directive], remarks: &mut Remarks) -> Self {
        let mut force = self.clone();
        // Limits and headers are inherited only by blocks that have none of their own.
        let has = |name: &str| block.iter().any(|it| it.name == name);
        if has("limit_req") {
            force.limit_req.clear();
        }
        if has("limit_conn") {
            force.limit_conn.clear();
        }
        // Whoever is kept out must not get in because the gateway does not know of it.
        for directive in block {
            match directive.name.as_str() {
                "auth_basic" | "auth_request" | "auth_jwt" | "ssl_verify_client" if directive.first() == "off" => {
                    force.guard = force.guard.filter(|guard| guard.name != directive.name);
                }
                "allow" if directive.first() == "all" => {}
                "auth_basic" | "auth_request" | "auth_jwt" | "ssl_verify_client" | "allow" | "deny"
                | "limit_except" | "internal" => force.guard = Some(directive),
                _ => {}
            }
        }
        if has("proxy_set_header") {
            force.host = Host::Proxied;
        }
        for directive in block.iter().filter(|it| is_inherited(&it.name)) {
            if let Err(why) = force.take(directive) {
                remarks.not_carried(directive, why);
            }
        }
        force
    }

    fn take(&mut self, directive: &'a Directive) -> Result<(), String> {
        let first = directive.first();
        let status = || match first.parse::<u64>() {
            Ok(status @ 400..=599) => Ok(status),
            _ => Err("a status is a number from 400 to 599".to_owned()),
        };
        let time = || {
            let time = unit::time(first).and_then(unit::our_time);
            time.ok_or_else(|| "the time must be more than zero, and at most a year".to_owned())
        };
        let size = || unit::size(first).ok_or_else(|| format!("'{first}' is not a fixed size; write the rule by hand"));
        match directive.name.as_str() {
            "limit_req" => {
                let limit = limit_req(directive)?;
                if self.limit_req.iter().any(|known| known.zone == limit.zone) {
                    return Err("the zone is used twice in one place; keep one of them".to_owned());
                }
                self.limit_req.push(limit);
            }
            "limit_conn" => {
                let most = directive.args.get(1).and_then(|most| most.parse().ok()).filter(|most| *most > 0);
                let most = most.ok_or("how many at once is missing: write limit_conn ZONE NUMBER")?;
                if self.limit_conn.iter().any(|known| known.zone == first) {
                    return Err("the zone is used twice in one place; keep one of them".to_owned());
                }
                self.limit_conn.push(LimitConn { zone: first, most, directive });
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

    /// `proxy_set_header`: the gateway sets the usual ones by itself.
    fn header(&mut self, directive: &Directive) -> Result<(), String> {
        let value = directive.args.get(1).map_or("", String::as_str);
        match directive.first().to_ascii_lowercase().as_str() {
            "host" => {
                self.host = match value {
                    "$host" | "$http_host" | "$host:$server_port" => Host::Client,
                    "$proxy_host" => Host::Proxied,
                    text if is_host(text) => Host::Fixed(text.to_owned()),
                    _ => return Err("the upstream's `host` is client, server or a fixed name".to_owned()),
                }
            }
            "x-forwarded-for" | "x-real-ip" | "x-forwarded-proto" | "x-forwarded-host" | "forwarded" | "upgrade"
            | "connection" => {}
            _ => return Err("headers are passed on as they come; set it in the program behind".to_owned()),
        }
        Ok(())
    }
}

/// Whether this is a host name, in letters that need no escape.
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
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{arg}' has no whole number"));
        match arg.split_once('=') {
            Some(("zone", name)) => zone = Some(name),
            Some(("burst", text)) => burst = number(text)?,
            Some(("delay", text)) => delay = number(text)?,
            None if arg == "nodelay" => nodelay = true,
            _ => return Err(format!("'{arg}' is not known")),
        }
    }
    let zone = zone.ok_or("zone=NAME is missing")?;
    let at_once = if nodelay { burst } else { delay.min(burst) };
    Ok(LimitReq { zone, burst, at_once, directive })
}
