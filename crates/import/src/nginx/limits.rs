//! Converts zones and their uses to rules.
//!
//! A zone is one counter for all its uses. Uses with the same parameters become one rule, whose condition
//! selects their requests.

use std::collections::HashMap;

use super::condition::{Condition, all, any};
use super::context::InheritedDirectives;
use super::directive::Directive;
use super::note::Notes;
use super::server::{ServerBlock, host_condition};
use super::unit::{self, NginxRate};
use super::variable::{KeyCase, Variables, depends_on_server};
use super::yaml;

/// A `limit_req_zone` or `limit_conn_zone`.
#[derive(Debug)]
pub(super) struct Zone<'a> {
    key: &'a str,
    /// Rate, for `limit_req`.
    rate: Option<NginxRate>,
    directive: &'a Directive,
}

impl<'a> Zone<'a> {
    /// Parses the zone's name and definition.
    pub(super) fn read(directive: &'a Directive) -> Result<(&'a str, Self), String> {
        let (mut key, mut zone, mut rate) = (None, None, None);
        for arg in &directive.args {
            match arg.split_once('=') {
                Some(("zone", text)) => zone = text.split(':').next().filter(|name| !name.is_empty()),
                Some(("rate", text)) => {
                    let read = NginxRate::read(text);
                    rate = Some(
                        read.ok_or_else(|| format!("invalid rate '{text}': expected a rate such as 10r/s or 30r/m"))?,
                    );
                }
                _ if arg == "sync" => {}
                _ if key.is_none() => key = Some(arg.as_str()),
                _ => return Err(format!("unknown parameter '{arg}'")),
            }
        }
        let key = key.ok_or("missing key")?;
        let zone = zone.ok_or("missing zone=NAME:SIZE")?;
        if directive.name == "limit_req_zone" && rate.is_none() {
            return Err("missing rate=NUMBERr/s".to_owned());
        }
        Ok((zone, Self { key, rate, directive }))
    }
}

/// Parameters of a zone's use. Uses with equal parameters share a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneUsage<'a> {
    Requests { zone: &'a str, burst: u64, no_delay: u64, status: u64, shadow: bool },
    Connections { zone: &'a str, max: u64, status: u64, shadow: bool },
    Bytes { per_second: u64, after: u64 },
}

impl<'a> ZoneUsage<'a> {
    const fn zone(&self) -> Option<&'a str> {
        match *self {
            Self::Requests { zone, .. } | Self::Connections { zone, .. } => Some(zone),
            Self::Bytes { .. } => None,
        }
    }
}

fn uses<'a>(directives: &InheritedDirectives<'a>) -> Vec<(ZoneUsage<'a>, &'a Directive)> {
    let requests = directives.limit_req.iter().map(|it| {
        let (burst, no_delay, status, shadow) = (it.burst, it.no_delay, directives.req_status, directives.req_dry_run);
        (ZoneUsage::Requests { zone: it.zone, burst, no_delay, status, shadow }, it.directive)
    });
    let connections = directives.limit_conn.iter().map(|it| {
        let (status, shadow) = (directives.conn_status, directives.conn_dry_run);
        (ZoneUsage::Connections { zone: it.zone, max: it.max, status, shadow }, it.directive)
    });
    let bytes = directives
        .rate
        .map(|(per_second, directive)| (ZoneUsage::Bytes { per_second, after: directives.rate_after }, directive));
    requests.chain(connections).chain(bytes).collect()
}

/// Directives in effect in a server and its locations.
fn inherited_directives<'s, 'a>(server: &'s ServerBlock<'a>) -> impl Iterator<Item = &'s InheritedDirectives<'a>> {
    std::iter::once(&server.directives).chain(server.locations.iter().map(|location| &location.directives))
}

/// Input for the conversion to rules.
pub(super) struct RuleInput<'a> {
    pub(super) variables: Variables<'a>,
    pub(super) request_zones: HashMap<&'a str, Zone<'a>>,
    pub(super) connection_zones: HashMap<&'a str, Zone<'a>>,
    pub(super) servers: Vec<ServerBlock<'a>>,
    /// Index of the default server, for hosts that no server names.
    pub(super) default: usize,
    /// Directives in effect outside all servers.
    pub(super) outer: InheritedDirectives<'a>,
}

/// Renders the rules as YAML.
pub(super) fn rules(sources: &RuleInput<'_>, notes: &mut Notes) -> Vec<String> {
    let mut found: Vec<(ZoneUsage<'_>, Vec<&Directive>)> = Vec::new();
    let blocks = sources.servers.iter().flat_map(inherited_directives);
    let blocks: Vec<&InheritedDirectives<'_>> =
        if sources.servers.is_empty() { vec![&sources.outer] } else { blocks.collect() };
    for (usage, directive) in blocks.into_iter().flat_map(uses) {
        match found.iter_mut().find(|(known, _)| *known == usage) {
            Some((_, directives_of)) if directives_of.contains(&directive) => {}
            Some((_, directives_of)) => directives_of.push(directive),
            None => found.push((usage, vec![directive])),
        }
    }
    let mut writer = RuleWriter { names: Vec::new(), used: Vec::new(), rules: Vec::new(), notes };
    for (usage, directives_of) in &found {
        if let Err(reason) = writer.usage(sources, usage, directives_of) {
            directives_of.iter().for_each(|it| writer.notes.unsupported(it, reason.clone()));
        }
    }
    let zones = sources.request_zones.values().chain(sources.connection_zones.values());
    for zone in zones.filter(|zone| !writer.used.contains(&zone.directive)) {
        writer.notes.changed(zone.directive, "the zone is not used, so no rule is generated");
    }
    writer.rules
}

struct RuleWriter<'a, 'r> {
    names: Vec<String>,
    /// Zones that are used.
    used: Vec<&'a Directive>,
    rules: Vec<String>,
    notes: &'r mut Notes,
}

impl<'a> RuleWriter<'a, '_> {
    fn usage(
        &mut self,
        sources: &'a RuleInput<'a>,
        usage: &ZoneUsage<'a>,
        directives: &[&Directive],
    ) -> Result<(), String> {
        let zones = match usage {
            ZoneUsage::Connections { .. } => &sources.connection_zones,
            _ => &sources.request_zones,
        };
        let zone = match usage.zone() {
            None => None,
            Some(name) => Some(zones.get(name).ok_or_else(|| format!("unknown or unsupported zone '{name}'"))?),
        };
        let Some(zone) = zone else {
            let reason =
                "nginx limits each request separately; here the limit applies to all requests of a client together";
            directives.iter().for_each(|it| self.notes.changed(it, reason));
            let key = "$binary_remote_addr";
            return self.rules(sources, usage, (key, None), directives, None);
        };
        if self.used.contains(&zone.directive) {
            let reason = "the zone is also used with other parameters; here each use has its own counter";
            directives.iter().for_each(|it| self.notes.changed(it, reason));
        }
        self.used.push(zone.directive);
        if zone.key.contains("$request_uri") {
            self.notes.changed(zone.directive, "the key is the path without the query");
        }
        // A key that cannot be converted is reported at all uses.
        sources.variables.key(zone.key, "")?;
        if !depends_on_server(zone.key) || sources.servers.is_empty() {
            let combined = self.rules(sources, usage, (zone.key, Some(zone)), directives, None);
            if combined.is_ok() || sources.servers.len() < 2 {
                return combined;
            }
            let reason = "too many uses for one condition; here each server has its own counter";
            self.notes.changed(zone.directive, reason);
        }
        for (at, server) in sources.servers.iter().enumerate() {
            let own = inherited_directives(server)
                .flat_map(uses)
                .filter(|(it, _)| it == usage)
                .map(|(_, directive)| directive);
            let mut directives_of: Vec<&Directive> = own.collect();
            directives_of.dedup();
            if let Err(reason) = self.rules(sources, usage, (zone.key, Some(zone)), &directives_of, Some(at)) {
                directives_of.iter().for_each(|it| self.notes.unsupported(it, reason.clone()));
            }
        }
        Ok(())
    }

    /// Writes the rules of one usage: one per case of the key.
    fn rules(
        &mut self,
        sources: &'a RuleInput<'a>,
        usage: &ZoneUsage<'a>,
        (key, zone): (&str, Option<&Zone<'a>>),
        directives: &[&Directive],
        only: Option<usize>,
    ) -> Result<(), String> {
        let requests = usage_condition(sources, usage, only);
        if requests == Condition::Never {
            return Ok(());
        }
        let server = only.and_then(|at| sources.servers.get(at)).map_or("", |server| server.first_name);
        let cases = sources.variables.key(key, server)?;
        if cases.is_empty() {
            return Err("the key is always empty, so nothing is limited".to_owned());
        }
        let before = self.rules.len();
        for case in &cases {
            let name = self.name(usage.zone().unwrap_or("limit-rate"));
            let rule = render(&name, usage, zone, &requests, case, directives);
            if let Err(reason) = validate(&rule) {
                // Either all cases are converted or none.
                self.rules.truncate(before);
                self.names.truncate(before);
                return Err(reason);
            }
            self.names.push(name);
            self.rules.push(rule);
        }
        Ok(())
    }

    /// Returns an unused rule name.
    fn name(&self, preferred: &str) -> String {
        let clean: String = preferred
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
            .take(100)
            .collect();
        let first = clean.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let base = if first { clean } else { format!("zone{clean}") };
        let numbered = (2..).map(|number: u64| format!("{base}-{number}"));
        std::iter::once(base.clone()).chain(numbered).find(|name| !self.names.contains(name)).unwrap_or(base)
    }
}

/// Condition for requests to a location with this usage.
fn usage_condition<'a>(sources: &RuleInput<'a>, usage: &ZoneUsage<'a>, only: Option<usize>) -> Condition {
    let uses_zone = |inherited: &InheritedDirectives<'a>| uses(inherited).iter().any(|(it, _)| it == usage);
    if sources.servers.is_empty() {
        return if uses_zone(&sources.outer) { Condition::Always } else { Condition::Never };
    }
    let paths: Vec<Condition> = sources
        .servers
        .iter()
        .enumerate()
        .map(
            |(at, server)| {
                if only.is_none_or(|only| only == at) { server.path_condition(uses_zone) } else { Condition::Never }
            },
        )
        .collect();
    let mut done: Vec<&Condition> = Vec::new();
    any(paths.iter().filter_map(|path| {
        if done.contains(&path) || *path == Condition::Never {
            return None;
        }
        done.push(path);
        let hosts = host_condition(&sources.servers, sources.default, |at| paths.get(at) == Some(path));
        Some(all([hosts, path.clone()]))
    }))
}

fn render(
    name: &str,
    usage: &ZoneUsage<'_>,
    zone: Option<&Zone<'_>>,
    requests: &Condition,
    case: &KeyCase,
    directives: &[&Directive],
) -> String {
    let mut lines: Vec<String> = zone
        .iter()
        .map(|zone| zone.directive)
        .chain(directives.iter().copied())
        .map(|it| yaml::comment(&format!("{}: {it}", it.location)))
        .collect();
    lines.push(format!("- name: {}", yaml::text(name)));
    let (target, when) = all([requests.clone(), case.when.clone()]).into_match_and_when();
    lines.extend(target.map(|target| format!("  match: {}", yaml::text(&target))));
    lines.extend(when.map(|when| format!("  when: {}", yaml::quoted(&when))));
    let attributes = case.attributes();
    let mut key: Vec<String> = attributes.iter().map(|it| attribute(it)).collect();
    match key.len() {
        0 => {}
        1 => lines.extend(key.pop().map(|key| format!("  key: {key}"))),
        _ => lines.push(format!("  key: {}", yaml::list(key))),
    }
    let rate = zone.and_then(|zone| zone.rate);
    let (limit, on_limit) = limit(usage, rate);
    lines.push(format!("  limits: [{limit}]"));
    lines.extend(on_limit.map(|on_limit| format!("  on_limit: {on_limit}")));
    if let ZoneUsage::Requests { shadow: true, .. } | ZoneUsage::Connections { shadow: true, .. } = usage {
        lines.push("  mode: shadow".to_owned());
    }
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// A key part; IPv6 addresses are counted individually, as in nginx.
fn attribute(name: &str) -> String {
    match name {
        "client.ip" => yaml::map([("attribute", name.to_owned()), ("ipv6_prefix", "128".to_owned())]),
        name => yaml::text(name),
    }
}

/// The limit and its `on_limit`.
fn limit(usage: &ZoneUsage<'_>, rate: Option<NginxRate>) -> (String, Option<String>) {
    let status = |status: u64| ("status", status.to_string());
    match *usage {
        ZoneUsage::Requests { burst, no_delay, status: code, .. } => {
            let rule_rate = rate.map(NginxRate::to_rule_rate).unwrap_or_default();
            // nginx does not count the first request towards the burst.
            let (immediate, total) = (no_delay.saturating_add(1), burst.saturating_add(1));
            if no_delay == burst {
                let limit = yaml::map([("token_bucket", rule_rate), ("burst", total.to_string())]);
                return (limit, Some(yaml::map([status(code)])));
            }
            if no_delay == 0 {
                let limit = yaml::map([("leaky_bucket", rule_rate), ("queue", total.to_string())]);
                return (limit, Some(yaml::map([status(code)])));
            }
            let delayed = burst - no_delay;
            let wait =
                rate.and_then(|rate| unit::to_rule_time(rate.duration_of(delayed))).unwrap_or_else(|| "1s".to_owned());
            let queue = yaml::map([("max_wait", wait), ("max_waiting", delayed.to_string())]);
            let limit = yaml::map([("token_bucket", rule_rate), ("burst", immediate.to_string())]);
            (limit, Some(yaml::map([("queue", queue), status(code)])))
        }
        ZoneUsage::Connections { max, status: code, .. } => {
            (yaml::map([("concurrency", max.to_string())]), Some(yaml::map([status(code)])))
        }
        ZoneUsage::Bytes { per_second, after } => {
            let rate = ("bandwidth", format!("{}/s", unit::to_rule_size(per_second)));
            let burst = (after > 0).then(|| ("burst", unit::to_rule_size(after)));
            (yaml::map(std::iter::once(rate).chain(burst)), None)
        }
    }
}

/// Parses the rule as a check; nginx allows values that the rule file does not.
fn validate(rule: &str) -> Result<(), String> {
    let report = match sluicegate_config::parse("rule", &format!("rules:\n{rule}")) {
        Ok(_) => return Ok(()),
        Err(report) => report,
    };
    let first = report.diagnostics().first();
    let message = first.map(|it| match &it.help {
        Some(help) => format!("{} ({help})", it.message),
        None => it.message.clone(),
    });
    Err(format!("no equivalent rule: {}", message.unwrap_or_default()))
}
