//! Gateway-wide settings.

use super::context::is_host;
use super::directive::Directive;
use super::listen::Listeners;
use super::note::Notes;
use super::unit;
use super::variable::network;
use super::yaml;

/// A gateway-wide setting with the location that set it first.
type Setting = Option<(String, String)>;

/// Gateway-wide settings.
#[derive(Debug, Default)]
pub(super) struct GatewaySettings {
    pub(super) listeners: Listeners,
    threads: Setting,
    header_timeout: Setting,
    idle: Setting,
    request_body: Setting,
    write: Setting,
    access_log: Setting,
    client_ip_header: Setting,
    trusted: Vec<(String, String)>,
}

impl GatewaySettings {
    /// Applies a directive; false if it is not a gateway setting.
    pub(super) fn apply(&mut self, it: &Directive, notes: &mut Notes) -> bool {
        let result = match it.name.as_str() {
            "worker_processes" if it.first_arg() == "auto" => Ok(()),
            "worker_processes" => match it.first_arg().parse::<u32>() {
                Ok(threads @ 1..=1024) => set_once(&mut self.threads, threads.to_string(), it),
                _ => Err("invalid number of threads; the default is one thread per core".to_owned()),
            },
            "client_header_timeout" => time(&mut self.header_timeout, it),
            "keepalive_timeout" => time(&mut self.idle, it),
            "client_body_timeout" => time(&mut self.request_body, it),
            "send_timeout" => time(&mut self.write, it),
            "access_log" => self.log(it),
            "set_real_ip_from" => self.trust(it),
            "real_ip_header" => self.real_ip_header(it),
            _ => return false,
        };
        if let Err(reason) = result {
            notes.unsupported(it, reason);
        } else if it.name == "access_log" && it.args.len() > 1 {
            notes.changed(it, "the common log format is used; other parameters are omitted");
        }
        true
    }

    fn log(&mut self, it: &Directive) -> Result<(), String> {
        let file = it.first_arg();
        if file == "off" {
            return Ok(());
        }
        if !unit::is_file(file) || file.starts_with("syslog:") {
            return Err("the gateway writes one access log file: set `access_log`".to_owned());
        }
        set_once(&mut self.access_log, yaml::map([("file", yaml::quoted(file)), ("format", "common".to_owned())]), it)
    }

    fn trust(&mut self, it: &Directive) -> Result<(), String> {
        let network = network(it.first_arg()).ok_or("expected an address or a network")?.to_string();
        if !self.trusted.iter().any(|(known, _)| *known == network) {
            self.trusted.push((network, origin_of(it)));
        }
        Ok(())
    }

    fn real_ip_header(&mut self, it: &Directive) -> Result<(), String> {
        let name = it.first_arg().to_ascii_lowercase();
        match name.as_str() {
            "proxy_protocol" => Ok(()),
            name if is_host(name) && !name.contains('.') => set_once(&mut self.client_ip_header, yaml::text(name), it),
            _ => Err("invalid header name".to_owned()),
        }
    }

    /// Renders the `gateway` section as YAML; empty if there is nothing to configure.
    pub(super) fn yaml(mut self, upstreams: &[String], routes: &[String], notes: &mut Notes, it: &Directive) -> String {
        if self.listeners.uses_proxy_protocol() && self.trusted.is_empty() {
            let reason = "`proxy_protocol` is omitted: it is accepted only from `trusted_proxies`, and there are none; \
                       add both";
            notes.unsupported(it, reason);
            self.listeners.disable_proxy_protocol();
        }
        if self.trusted.is_empty() {
            self.client_ip_header = None;
        } else if self.client_ip_header.is_none() && !self.listeners.uses_proxy_protocol() {
            self.client_ip_header = Some(("x-real-ip".to_owned(), "default of real_ip_header in nginx".to_owned()));
        }
        let mut lines = Vec::new();
        let listen = self.listeners.yaml();
        if !listen.is_empty() {
            lines.push("listen:".to_owned());
            lines.extend(listen.into_iter().map(|line| format!("  {line}")));
        }
        let mut field = |name: &str, setting: Setting| {
            if let Some((value, comment)) = setting {
                lines.push(yaml::comment(&comment));
                lines.push(format!("{name}: {value}"));
            }
        };
        field("threads", self.threads);
        if let Some((_, comment)) = self.trusted.first() {
            let networks = yaml::list(self.trusted.iter().map(|(network, _)| yaml::quoted(network)));
            field("trusted_proxies", Some((networks, comment.clone())));
        }
        field("client_ip_header", self.client_ip_header);
        field("access_log", self.access_log);
        let timeouts: Vec<(&str, (String, String))> = [
            ("header", self.header_timeout),
            ("idle", self.idle),
            ("request_body", self.request_body),
            ("write", self.write),
        ]
        .into_iter()
        .filter_map(|(name, setting)| Some((name, setting?)))
        .collect();
        if !timeouts.is_empty() {
            lines.push("timeouts:".to_owned());
            for (name, (value, comment)) in timeouts {
                lines.push(format!("  {}", yaml::comment(&comment)));
                lines.push(format!("  {name}: {value}"));
            }
        }
        for (name, part) in [("upstreams", upstreams), ("routes", routes)] {
            if !part.is_empty() {
                lines.push(format!("{name}:"));
                lines.extend(part.iter().map(|line| format!("  {line}")));
            }
        }
        if lines.is_empty() {
            return String::new();
        }
        lines.iter().fold("gateway:\n".to_owned(), |text, line| text + "  " + line + "\n")
    }
}

fn origin_of(it: &Directive) -> String {
    format!("{}: {it}", it.location)
}

fn time(setting: &mut Setting, it: &Directive) -> Result<(), String> {
    let time = unit::time(it.first_arg()).and_then(unit::to_rule_time);
    set_once(setting, time.ok_or("the time must be greater than zero and at most one year")?, it)
}

/// Sets a value once: the gateway has one value for all servers, and the first one wins.
fn set_once(setting: &mut Setting, value: String, it: &Directive) -> Result<(), String> {
    match setting {
        Some((known, _)) if *known == value => Ok(()),
        Some((_, origin)) => Err(format!("the gateway has one value for all servers; the value of {origin} is used")),
        None => {
            *setting = Some((value, origin_of(it)));
            Ok(())
        }
    }
}
