//! What is said of the gateway as a whole.

use super::directive::Directive;
use super::force::is_host;
use super::listen::Listeners;
use super::remark::Remarks;
use super::unit;
use super::variable::network;
use super::yaml;

/// A setting that holds for the whole gateway, and where it was said first.
type Said = Option<(String, String)>;

/// The settings that hold for all of the gateway.
#[derive(Debug, Default)]
pub(super) struct Gateway {
    pub(super) listeners: Listeners,
    threads: Said,
    head: Said,
    idle: Said,
    request_body: Said,
    send: Said,
    access_log: Said,
    forwarded: Said,
    trusted: Vec<(String, String)>,
}

impl Gateway {
    /// Takes up a directive, if it is one of the gateway's.
    pub(super) fn take(&mut self, it: &Directive, remarks: &mut Remarks) -> bool {
        let taken = match it.name.as_str() {
            "worker_processes" if it.first() == "auto" => Ok(()),
            "worker_processes" => match it.first().parse::<u32>() {
                Ok(threads @ 1..=1024) => once(&mut self.threads, threads.to_string(), it),
                _ => Err("it is no number of threads; without one there is a thread for each core".to_owned()),
            },
            "client_header_timeout" => time(&mut self.head, it),
            "keepalive_timeout" => time(&mut self.idle, it),
            "client_body_timeout" => time(&mut self.request_body, it),
            "send_timeout" => time(&mut self.send, it),
            "access_log" => self.log(it),
            "set_real_ip_from" => self.trust(it),
            "real_ip_header" => self.header(it),
            _ => return false,
        };
        if let Err(why) = taken {
            remarks.not_carried(it, why);
        } else if it.name == "access_log" && it.args.len() > 1 {
            remarks.changed(it, "lines have the common format; further parameters are left out");
        }
        true
    }

    fn log(&mut self, it: &Directive) -> Result<(), String> {
        let file = it.first();
        if file == "off" {
            return Ok(());
        }
        if !unit::is_file(file) || file.starts_with("syslog:") {
            return Err("requests are noted in one file: `access_log` of the gateway".to_owned());
        }
        once(&mut self.access_log, yaml::map([("file", yaml::quoted(file)), ("format", "common".to_owned())]), it)
    }

    fn trust(&mut self, it: &Directive) -> Result<(), String> {
        let network = network(it.first()).ok_or("only addresses and networks can be trusted")?.to_string();
        if !self.trusted.iter().any(|(known, _)| *known == network) {
            self.trusted.push((network, said(it)));
        }
        Ok(())
    }

    fn header(&mut self, it: &Directive) -> Result<(), String> {
        let name = it.first().to_ascii_lowercase();
        match name.as_str() {
            "proxy_protocol" => Ok(()),
            name if is_host(name) && !name.contains('.') => once(&mut self.forwarded, yaml::text(name), it),
            _ => Err("it is no header's name".to_owned()),
        }
    }

    /// Puts the parts together, as YAML; nothing if there is nothing to say.
    pub(super) fn yaml(
        mut self,
        upstreams: &[String],
        routes: &[String],
        remarks: &mut Remarks,
        it: &Directive,
    ) -> String {
        if self.listeners.expect_proxy_line() && self.trusted.is_empty() {
            let why = "`proxy_protocol` is left out: it is believed from `trusted_proxies` only, and there are none; \
                       add both";
            remarks.not_carried(it, why);
            self.listeners.without_proxy_line();
        }
        if self.trusted.is_empty() {
            self.forwarded = None;
        } else if self.forwarded.is_none() && !self.listeners.expect_proxy_line() {
            self.forwarded =
                Some(("x-real-ip".to_owned(), "nginx looks at it unless real_ip_header is said".to_owned()));
        }
        let mut lines = Vec::new();
        let listen = self.listeners.yaml();
        if !listen.is_empty() {
            lines.push("listen:".to_owned());
            lines.extend(listen.into_iter().map(|line| format!("  {line}")));
        }
        let mut field = |name: &str, said: Said| {
            if let Some((value, comment)) = said {
                lines.push(yaml::comment(&comment));
                lines.push(format!("{name}: {value}"));
            }
        };
        field("threads", self.threads);
        if let Some((_, comment)) = self.trusted.first() {
            let networks = yaml::list(self.trusted.iter().map(|(network, _)| yaml::quoted(network)));
            field("trusted_proxies", Some((networks, comment.clone())));
        }
        field("forwarded", self.forwarded);
        field("access_log", self.access_log);
        let timeouts: Vec<(&str, (String, String))> =
            [("head", self.head), ("idle", self.idle), ("request_body", self.request_body), ("send", self.send)]
                .into_iter()
                .filter_map(|(name, said)| Some((name, said?)))
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

fn said(it: &Directive) -> String {
    format!("{}: {it}", it.place)
}

fn time(setting: &mut Said, it: &Directive) -> Result<(), String> {
    let time = unit::time(it.first()).and_then(unit::our_time);
    once(setting, time.ok_or("the time must be more than zero, and at most a year")?, it)
}

/// The gateway has one value for all servers: the first that is said.
fn once(setting: &mut Said, value: String, it: &Directive) -> Result<(), String> {
    match setting {
        Some((known, _)) if *known == value => Ok(()),
        Some((_, place)) => Err(format!("there is one for the whole gateway, and it is taken from {place}")),
        None => {
            *setting = Some((value, said(it)));
            Ok(())
        }
    }
}
