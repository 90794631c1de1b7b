//! Converts locations to routes.

use super::directive::Directive;
use super::note::Notes;
use super::server::{LocationBlock, LocationPattern, ServerBlock, ServerName};
use super::upstream::{ProxyTarget, Upstreams};
use super::variable::has_variables;
use super::yaml;

/// Maximum size of a fixed response body.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Renders the routes of all servers as YAML.
pub(super) fn routes(
    servers: &[ServerBlock<'_>],
    default: usize,
    upstreams: &mut Upstreams<'_>,
    notes: &mut Notes,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut taken: Vec<(Option<ServerName>, String)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let hosts = hosts_of(servers, at, default);
        for location in &server.locations {
            let Some(destination) = destination(location, upstreams, notes) else { continue };
            let path = location.pattern.route();
            lines.push(yaml::comment(&format!("{}: {}", location.directive.location, location.directive)));
            for host in &hosts {
                if taken.contains(&(host.clone(), path.clone())) {
                    notes.unsupported(location.directive, "duplicate path for this host; remove one of them");
                    continue;
                }
                taken.push((host.clone(), path.clone()));
                let host = host.as_ref().map(|host| ("host", host_text(host)));
                let path = ("path", yaml::text(&path));
                let fields = host.into_iter().chain([path]).chain(destination.iter().cloned());
                lines.push(format!("- {}", yaml::map(fields)));
            }
        }
    }
    lines
}

/// Destination of a location. A location that cannot be converted must not fall through to a shorter path.
fn destination(
    location: &LocationBlock<'_>,
    upstreams: &mut Upstreams<'_>,
    notes: &mut Notes,
) -> Option<Vec<(&'static str, String)>> {
    let fixed_status = |status: &str| vec![("respond", yaml::map([("status", status.to_owned())]))];
    let result = match location.action {
        None if location.has_nested => return None,
        None => return Some(fixed_status("501")),
        Some(action) if action.name == "return" => {
            if action.first_arg() == "444" {
                notes.changed(action, "closing a connection without a response is not supported; the response is 403");
            }
            fixed_response(action).map(|response| vec![("respond", response)]).map_err(|reason| (action, reason))
        }
        Some(action) => proxy_destination(location, action, upstreams, notes).map_err(|reason| (action, reason)),
    };
    match result {
        Ok(_) if location.directives.access_control.is_some() => Some(fixed_status("403")),
        Ok(to) => Some(to),
        Err((action, reason)) => {
            notes.unsupported(action, format!("{reason}; the response is 501 until the route is changed manually"));
            Some(fixed_status("501"))
        }
    }
}

fn host_text(name: &ServerName) -> String {
    match name {
        ServerName::Exact(name) => yaml::text(name),
        ServerName::Subdomains(name) => yaml::quoted(&format!("*.{name}")),
    }
}

/// Hosts of a server's routes; `None` means all other hosts.
fn hosts_of(servers: &[ServerBlock<'_>], at: usize, default: usize) -> Vec<Option<ServerName>> {
    let Some(server) = servers.get(at) else { return Vec::new() };
    let earlier = |name: &ServerName| servers[..at].iter().any(|other| other.names.contains(name));
    let own = server.names.iter().filter(|name| !earlier(name));
    if at != default {
        return own.cloned().map(Some).collect();
    }
    // The default server names its hosts only if another server would match them.
    let others = || servers.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, other)| &other.names);
    let contested = own.filter(|name| others().any(|other| name.within(other)));
    std::iter::once(None).chain(contested.cloned().map(Some)).collect()
}

fn proxy_destination(
    location: &LocationBlock<'_>,
    action: &Directive,
    upstreams: &mut Upstreams<'_>,
    notes: &mut Notes,
) -> Result<Vec<(&'static str, String)>, String> {
    let target = ProxyTarget::read(action)?;
    let (mut base, mut strip) = ("", None);
    match (&location.pattern, target.path) {
        (_, None) => {}
        (LocationPattern::Exact(path), Some(replaced)) if path == replaced => {}
        (LocationPattern::Exact(_), Some(_)) => {
            return Err(
                "replacing the path of an exact location is not supported; serve this path in the upstream application"
                    .to_owned(),
            );
        }
        (LocationPattern::Prefix(path), Some(replaced)) => {
            let short = replaced.trim_end_matches('/');
            if path != short {
                base = short;
                strip = (!path.is_empty()).then_some(path);
            }
            let ends_with_slash = |text: &str| text.ends_with('/');
            if ends_with_slash(replaced) != location.directive.args.last().is_some_and(|path| ends_with_slash(path)) {
                notes.changed(action, "only one of the paths ends with a slash; here complete segments are replaced");
            }
        }
    }
    let name = upstreams.name(&target, base, &location.directives, notes)?;
    let upstream = ("upstream", yaml::text(&name));
    Ok(std::iter::once(upstream).chain(strip.map(|strip| ("strip_prefix", yaml::text(strip)))).collect())
}

/// Converts a `return` directive to a fixed response.
pub(super) fn fixed_response(directive: &Directive) -> Result<String, String> {
    let (status, text) = match directive.args.as_slice() {
        [url] if url.starts_with("http://") || url.starts_with("https://") => (302, Some(url.as_str())),
        [code] => (status(code)?, None),
        [code, text] => (status(code)?, Some(text.as_str())),
        _ => return Err("expected `return CODE [TEXT or URL]`".to_owned()),
    };
    if text.is_some_and(has_variables) {
        return Err("responses are fixed texts; return a redirect that keeps host or path in the upstream application"
            .to_owned());
    }
    // For 444, nginx closes the connection without a response.
    let status = if status == 444 { 403 } else { status };
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(url)) => {
            let is_path_or_url = ["/", "http://", "https://"].iter().any(|start| url.starts_with(start));
            if !is_path_or_url || !url.bytes().all(|b| b.is_ascii_graphic()) {
                return Err("the redirect target must be a path or URL".to_owned());
            }
            let redirect = yaml::map([("location", yaml::quoted(url)), ("status", status.to_string())]);
            Ok(yaml::map([("redirect", redirect)]))
        }
        (200..=299 | 400..=599, Some(text)) if text.len() <= MAX_BODY_BYTES => {
            Ok(yaml::map([("status", status.to_string()), ("body", yaml::quoted(text))]))
        }
        (200..=299 | 400..=599, None) => Ok(yaml::map([("status", status.to_string())])),
        _ => Err("this status is not supported".to_owned()),
    }
}

fn status(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("invalid status '{text}'"))
}
