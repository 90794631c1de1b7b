//! Rules, made of zones and the places that use them.
//!
//! A zone is one count for all places that use it, so places that use a zone in the same way become one
//! rule, whose condition says which requests come to them.

use std::collections::HashMap;

use super::condition::{Condition, all, any};
use super::directive::Directive;
use super::force::Force;
use super::remark::Remarks;
use super::site::{Server, hosts};
use super::unit::{self, Rate};
use super::variable::{Case, Variables, names_server};
use super::yaml;

/// A `limit_req_zone` or `limit_conn_zone`.
#[derive(Debug)]
pub(super) struct Zone<'a> {
    key: &'a str,
    /// For `limit_req`.
    rate: Option<Rate>,
    directive: &'a Directive,
}

impl<'a> Zone<'a> {
    /// Its name, and what it says.
    pub(super) fn read(directive: &'a Directive) -> Result<(&'a str, Self), String> {
        let (mut key, mut zone, mut rate) = (None, None, None);
        for arg in &directive.args {
            match arg.split_once('=') {
                Some(("zone", text)) => zone = text.split(':').next().filter(|name| !name.is_empty()),
                Some(("rate", text)) => {
                    let read = Rate::read(text);
                    rate = Some(read.ok_or_else(|| format!("'{text}' is no rate such as 10r/s or 30r/m"))?);
                }
                _ if arg == "sync" => {}
                _ if key.is_none() => key = Some(arg.as_str()),
                _ => return Err(format!("'{arg}' is not known")),
            }
        }
        let key = key.ok_or("the key is missing")?;
        let zone = zone.ok_or("zone=NAME:SIZE is missing")?;
        if directive.name == "limit_req_zone" && rate.is_none() {
            return Err("rate=NUMBERr/s is missing".to_owned());
        }
        Ok((zone, Self { key, rate, directive }))
    }
}

/// How a place uses a zone. Places that use it in the same way share a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use<'a> {
    Requests { zone: &'a str, burst: u64, at_once: u64, status: u64, shadow: bool },
    Connections { zone: &'a str, most: u64, status: u64, shadow: bool },
    Bytes { per_second: u64, after: u64 },
}

impl<'a> Use<'a> {
    const fn zone(&self) -> Option<&'a str> {
        match *self {
            Self::Requests { zone, .. } | Self::Connections { zone, .. } => Some(zone),
            Self::Bytes { .. } => None,
        }
    }
}

fn uses<'a>(force: &Force<'a>) -> Vec<(Use<'a>, &'a Directive)> {
    let requests = force.limit_req.iter().map(|it| {
        let (burst, at_once, status, shadow) = (it.burst, it.at_once, force.req_status, force.req_dry_run);
        (Use::Requests { zone: it.zone, burst, at_once, status, shadow }, it.directive)
    });
    let connections = force.limit_conn.iter().map(|it| {
        let (status, shadow) = (force.conn_status, force.conn_dry_run);
        (Use::Connections { zone: it.zone, most: it.most, status, shadow }, it.directive)
    });
    let bytes =
        force.rate.map(|(per_second, directive)| (Use::Bytes { per_second, after: force.rate_after }, directive));
    requests.chain(connections).chain(bytes).collect()
}

/// What is in force in a server and its locations.
fn forces<'s, 'a>(server: &'s Server<'a>) -> impl Iterator<Item = &'s Force<'a>> {
    std::iter::once(&server.force).chain(server.locations.iter().map(|location| &location.force))
}

/// What rules are made of.
pub(super) struct Sources<'a> {
    pub(super) variables: Variables<'a>,
    pub(super) request_zones: HashMap<&'a str, Zone<'a>>,
    pub(super) connection_zones: HashMap<&'a str, Zone<'a>>,
    pub(super) servers: Vec<Server<'a>>,
    /// Which server answers for hosts that none names.
    pub(super) default: usize,
    /// What is in force around all servers.
    pub(super) around: Force<'a>,
}

/// The rules, as YAML.
pub(super) fn rules(sources: &Sources<'_>, remarks: &mut Remarks) -> Vec<String> {
    let mut found: Vec<(Use<'_>, Vec<&Directive>)> = Vec::new();
    let forces = sources.servers.iter().flat_map(forces);
    let forces: Vec<&Force<'_>> = if sources.servers.is_empty() { vec![&sources.around] } else { forces.collect() };
    for (usage, directive) in forces.into_iter().flat_map(uses) {
        match found.iter_mut().find(|(known, _)| *known == usage) {
            Some((_, places)) if places.contains(&directive) => {}
            Some((_, places)) => places.push(directive),
            None => found.push((usage, vec![directive])),
        }
    }
    let mut writer = Writer { names: Vec::new(), used: Vec::new(), rules: Vec::new(), remarks };
    for (usage, places) in &found {
        if let Err(why) = writer.usage(sources, usage, places) {
            places.iter().for_each(|place| writer.remarks.not_carried(place, why.clone()));
        }
    }
    let zones = sources.request_zones.values().chain(sources.connection_zones.values());
    for zone in zones.filter(|zone| !writer.used.contains(&zone.directive)) {
        writer.remarks.changed(zone.directive, "nothing uses the zone here, so it makes no rule");
    }
    writer.rules
}

struct Writer<'a, 'r> {
    names: Vec<String>,
    /// Zones that places use.
    used: Vec<&'a Directive>,
    rules: Vec<String>,
    remarks: &'r mut Remarks,
}

impl<'a> Writer<'a, '_> {
    fn usage(&mut self, sources: &'a Sources<'a>, usage: &Use<'a>, places: &[&Directive]) -> Result<(), String> {
        let zones = match usage {
            Use::Connections { .. } => &sources.connection_zones,
            _ => &sources.request_zones,
        };
        let zone = match usage.zone() {
            None => None,
            Some(name) => Some(zones.get(name).ok_or_else(|| format!("there is no zone '{name}' that can be used"))?),
        };
        let Some(zone) = zone else {
            let why =
                "nginx bounds each request, so two at once get twice as much; here it is all of a client's together";
            places.iter().for_each(|place| self.remarks.changed(place, why));
            let key = "$binary_remote_addr";
            return self.rules(sources, usage, (key, None), places, None);
        };
        if self.used.contains(&zone.directive) {
            let why = "the zone is also used in another way: here each has a count of its own";
            places.iter().for_each(|place| self.remarks.changed(place, why));
        }
        self.used.push(zone.directive);
        if zone.key.contains("$request_uri") {
            self.remarks.changed(zone.directive, "the key is the path alone, without the query");
        }
        // A key that cannot be said is at fault in all places alike.
        sources.variables.key(zone.key, "")?;
        if !names_server(zone.key) || sources.servers.is_empty() {
            let whole = self.rules(sources, usage, (zone.key, Some(zone)), places, None);
            if whole.is_ok() || sources.servers.len() < 2 {
                return whole;
            }
            let why = "its places are too many for one condition: here each server has a count of its own";
            self.remarks.changed(zone.directive, why);
        }
        for (at, server) in sources.servers.iter().enumerate() {
            let own = forces(server).flat_map(uses).filter(|(it, _)| it == usage).map(|(_, place)| place);
            let mut places: Vec<&Directive> = own.collect();
            places.dedup();
            if let Err(why) = self.rules(sources, usage, (zone.key, Some(zone)), &places, Some(at)) {
                places.iter().for_each(|place| self.remarks.not_carried(place, why.clone()));
            }
        }
        Ok(())
    }

    /// The rules of one use: one for each case of the key.
    fn rules(
        &mut self,
        sources: &'a Sources<'a>,
        usage: &Use<'a>,
        (key, zone): (&str, Option<&Zone<'a>>),
        places: &[&Directive],
        only: Option<usize>,
    ) -> Result<(), String> {
        let requests = requests(sources, usage, only);
        if requests == Condition::Never {
            return Ok(());
        }
        let server = only.and_then(|at| sources.servers.get(at)).map_or("", |server| server.first_name);
        let cases = sources.variables.key(key, server)?;
        if cases.is_empty() {
            return Err("its key is always empty, so nothing is limited".to_owned());
        }
        let before = self.rules.len();
        for case in &cases {
            let name = self.name(usage.zone().unwrap_or("limit-rate"));
            let rule = written(&name, usage, zone, &requests, case, places);
            if let Err(why) = check(&rule) {
                // All of its cases, or none.
                self.rules.truncate(before);
                self.names.truncate(before);
                return Err(why);
            }
            self.names.push(name);
            self.rules.push(rule);
        }
        Ok(())
    }

    /// A name that is still free.
    fn name(&self, wanted: &str) -> String {
        let clean: String = wanted
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

/// When a request comes to a place that uses the zone so.
fn requests<'a>(sources: &Sources<'a>, usage: &Use<'a>, only: Option<usize>) -> Condition {
    let fits = |force: &Force<'a>| uses(force).iter().any(|(it, _)| it == usage);
    if sources.servers.is_empty() {
        return if fits(&sources.around) { Condition::Always } else { Condition::Never };
    }
    let paths: Vec<Condition> = sources
        .servers
        .iter()
        .enumerate()
        .map(|(at, server)| if only.is_none_or(|only| only == at) { server.paths(fits) } else { Condition::Never })
        .collect();
    let mut done: Vec<&Condition> = Vec::new();
    any(paths.iter().filter_map(|path| {
        if done.contains(&path) || *path == Condition::Never {
            return None;
        }
        done.push(path);
        let hosts = hosts(&sources.servers, sources.default, |at| paths.get(at) == Some(path));
        Some(all([hosts, path.clone()]))
    }))
}

fn written(
    name: &str,
    usage: &Use<'_>,
    zone: Option<&Zone<'_>>,
    requests: &Condition,
    case: &Case,
    places: &[&Directive],
) -> String {
    let mut lines: Vec<String> = zone
        .iter()
        .map(|zone| zone.directive)
        .chain(places.iter().copied())
        .map(|it| yaml::comment(&format!("{}: {it}", it.place)))
        .collect();
    lines.push(format!("- name: {}", yaml::text(name)));
    let (target, when) = all([requests.clone(), case.when.clone()]).said();
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
    if let Use::Requests { shadow: true, .. } | Use::Connections { shadow: true, .. } = usage {
        lines.push("  mode: shadow".to_owned());
    }
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// A part of a key; IPv6 addresses one by one, as nginx counts them.
fn attribute(name: &str) -> String {
    match name {
        "client.ip" => yaml::map([("attribute", name.to_owned()), ("ipv6_prefix", "128".to_owned())]),
        name => yaml::text(name),
    }
}

/// The limit, and what happens over it.
fn limit(usage: &Use<'_>, rate: Option<Rate>) -> (String, Option<String>) {
    let status = |status: u64| ("status", status.to_string());
    match *usage {
        Use::Requests { burst, at_once, status: code, .. } => {
            let ours = rate.map(Rate::ours).unwrap_or_default();
            // The first request is beside the burst.
            let (at_once_too, all_of_them) = (at_once.saturating_add(1), burst.saturating_add(1));
            if at_once == burst {
                let limit = yaml::map([("token_bucket", ours), ("burst", all_of_them.to_string())]);
                return (limit, Some(yaml::map([status(code)])));
            }
            if at_once == 0 {
                let limit = yaml::map([("leaky_bucket", ours), ("queue", all_of_them.to_string())]);
                return (limit, Some(yaml::map([status(code)])));
            }
            let late = burst - at_once;
            let wait = rate.and_then(|rate| unit::our_time(rate.time_of(late))).unwrap_or_else(|| "1s".to_owned());
            let queue = yaml::map([("max_wait", wait), ("max_waiting", late.to_string())]);
            let limit = yaml::map([("token_bucket", ours), ("burst", at_once_too.to_string())]);
            (limit, Some(yaml::map([("queue", queue), status(code)])))
        }
        Use::Connections { most, status: code, .. } => {
            (yaml::map([("concurrency", most.to_string())]), Some(yaml::map([status(code)])))
        }
        Use::Bytes { per_second, after } => {
            let rate = ("bandwidth", format!("{}/s", unit::our_size(per_second)));
            let burst = (after > 0).then(|| ("burst", unit::our_size(after)));
            (yaml::map(std::iter::once(rate).chain(burst)), None)
        }
    }
}

/// Whether our own reader takes the rule; what nginx allows may be too much for it.
fn check(rule: &str) -> Result<(), String> {
    let report = match crate::parse("rule", &format!("rules:\n{rule}")) {
        Ok(_) => return Ok(()),
        Err(report) => report,
    };
    let first = report.diagnostics().first();
    let what = first.map(|it| match &it.help {
        Some(help) => format!("{} ({help})", it.message),
        None => it.message.clone(),
    });
    Err(format!("no rule can say it: {}", what.unwrap_or_default()))
}
