//! Routes, made of locations.

use super::directive::Directive;
use super::remark::Remarks;
use super::site::{Location, Name, Pattern, Server};
use super::upstream::{Target, Upstreams};
use super::variable::has_variables;
use super::yaml;

/// The longest text that is answered.
const LONGEST_BODY: usize = 64 << 10;

/// The routes of all servers, as YAML.
pub(super) fn routes(
    servers: &[Server<'_>],
    default: usize,
    upstreams: &mut Upstreams<'_>,
    remarks: &mut Remarks,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut taken: Vec<(Option<Name>, String)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let hosts = hosts_of(servers, at, default);
        for location in &server.locations {
            let Some(to) = destination(location, upstreams, remarks) else { continue };
            let path = location.pattern.route();
            lines.push(yaml::comment(&format!("{}: {}", location.directive.place, location.directive)));
            for host in &hosts {
                if taken.contains(&(host.clone(), path.clone())) {
                    remarks.not_carried(location.directive, "the host has this path already; keep one of them");
                    continue;
                }
                taken.push((host.clone(), path.clone()));
                let host = host.as_ref().map(|host| ("host", host_text(host)));
                let path = ("path", yaml::text(&path));
                let fields = host.into_iter().chain([path]).chain(to.iter().cloned());
                lines.push(format!("- {}", yaml::map(fields)));
            }
        }
    }
    lines
}

/// Where a location leads. What cannot be carried over must not go elsewhere by the route of a shorter path.
fn destination(
    location: &Location<'_>,
    upstreams: &mut Upstreams<'_>,
    remarks: &mut Remarks,
) -> Option<Vec<(&'static str, String)>> {
    let answered = |status: &str| vec![("answer", yaml::map([("status", status.to_owned())]))];
    let to = match location.action {
        None if location.holds_others => return None,
        None => return Some(answered("501")),
        Some(action) if action.name == "return" => {
            if action.first() == "444" {
                remarks.changed(action, "connections are not cut without an answer: it is 403 here");
            }
            answer(action).map(|answer| vec![("answer", answer)]).map_err(|why| (action, why))
        }
        Some(action) => proxied(location, action, upstreams, remarks).map_err(|why| (action, why)),
    };
    match to {
        Ok(_) if location.force.guard.is_some() => Some(answered("403")),
        Ok(to) => Some(to),
        Err((action, why)) => {
            remarks.not_carried(action, format!("{why}; answered with 501 until then"));
            Some(answered("501"))
        }
    }
}

fn host_text(name: &Name) -> String {
    match name {
        Name::Exact(name) => yaml::text(name),
        Name::Below(name) => yaml::quoted(&format!("*.{name}")),
    }
}

/// The hosts that a server's routes name; none is all others.
fn hosts_of(servers: &[Server<'_>], at: usize, default: usize) -> Vec<Option<Name>> {
    let Some(server) = servers.get(at) else { return Vec::new() };
    let earlier = |name: &Name| servers[..at].iter().any(|other| other.names.contains(name));
    let own = server.names.iter().filter(|name| !earlier(name));
    if at != default {
        return own.cloned().map(Some).collect();
    }
    // The default server needs to name its hosts only where another one would take them.
    let others = || servers.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, other)| &other.names);
    let contested = own.filter(|name| others().any(|other| name.within(other)));
    std::iter::once(None).chain(contested.cloned().map(Some)).collect()
}

fn proxied(
    location: &Location<'_>,
    action: &Directive,
    upstreams: &mut Upstreams<'_>,
    remarks: &mut Remarks,
) -> Result<Vec<(&'static str, String)>, String> {
    let target = Target::read(action)?;
    let (mut base, mut strip) = ("", None);
    match (&location.pattern, target.path) {
        (_, None) => {}
        (Pattern::Exact(path), Some(replaced)) if path == replaced => {}
        (Pattern::Exact(_), Some(_)) => {
            return Err("the path of a single page cannot be replaced; let the program answer at this path".to_owned());
        }
        (Pattern::Below(path), Some(replaced)) => {
            let short = replaced.trim_end_matches('/');
            if path != short {
                base = short;
                strip = (!path.is_empty()).then_some(path);
            }
            let slash = |text: &str| text.ends_with('/');
            if slash(replaced) != location.directive.args.last().is_some_and(|path| slash(path)) {
                remarks.changed(action, "only one of the two ends with a slash; here whole segments are replaced");
            }
        }
    }
    let name = upstreams.name(&target, base, &location.force, remarks)?;
    let upstream = ("upstream", yaml::text(&name));
    Ok(std::iter::once(upstream).chain(strip.map(|strip| ("strip", yaml::text(strip)))).collect())
}

/// What `return` answers.
pub(super) fn answer(directive: &Directive) -> Result<String, String> {
    let (status, text) = match directive.args.as_slice() {
        [url] if url.starts_with("http://") || url.starts_with("https://") => (302, Some(url.as_str())),
        [code] => (status(code)?, None),
        [code, text] => (status(code)?, Some(text.as_str())),
        _ => return Err("it is written `return CODE [TEXT or URL]`".to_owned()),
    };
    if text.is_some_and(has_variables) {
        return Err("answers are fixed texts; a redirect that keeps host or path needs the program behind".to_owned());
    }
    // nginx cuts the connection without an answer.
    let status = if status == 444 { 403 } else { status };
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(url)) => {
            let begins = ["/", "http://", "https://"].iter().any(|start| url.starts_with(start));
            if !begins || !url.bytes().all(|b| b.is_ascii_graphic()) {
                return Err("it does not lead to a path or URL".to_owned());
            }
            let redirect = yaml::map([("location", yaml::quoted(url)), ("status", status.to_string())]);
            Ok(yaml::map([("redirect", redirect)]))
        }
        (200..=299 | 400..=599, Some(text)) if text.len() <= LONGEST_BODY => {
            Ok(yaml::map([("status", status.to_string()), ("body", yaml::quoted(text))]))
        }
        (200..=299 | 400..=599, None) => Ok(yaml::map([("status", status.to_string())])),
        _ => Err("there is no such answer here".to_owned()),
    }
}

fn status(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("'{text}' is no status"))
}
