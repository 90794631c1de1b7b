//! Servers and locations, with the directives in effect in each.

use super::condition::Condition;
use super::context::{InheritedDirectives, is_host, is_inherited};
use super::directive::Directive;
use super::exclusion::innermost;
use super::note::Notes;
use super::unsupported::Unsupported;

/// A `server` block.
#[derive(Debug)]
pub(super) struct ServerBlock<'a> {
    /// Supported server names.
    pub(super) names: Vec<ServerName>,
    /// First name, which nginx uses as `$server_name`.
    pub(super) first_name: &'a str,
    /// True if it is declared as the default server.
    pub(super) is_default: bool,
    pub(super) directives: InheritedDirectives<'a>,
    pub(super) locations: Vec<LocationBlock<'a>>,
    pub(super) directive: &'a Directive,
}

/// A host, or all its subdomains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerName {
    Exact(String),
    Subdomains(String),
}

/// A `location` block.
#[derive(Debug)]
pub(super) struct LocationBlock<'a> {
    pub(super) pattern: LocationPattern,
    pub(super) directives: InheritedDirectives<'a>,
    /// Its `proxy_pass` or `return`.
    pub(super) action: Option<&'a Directive>,
    /// True if it has nested locations.
    pub(super) has_nested: bool,
    pub(super) directive: &'a Directive,
}

/// Path pattern of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocationPattern {
    /// Exactly this path.
    Exact(String),
    /// This path and its subpaths; empty for all paths.
    Prefix(String),
}

impl ServerName {
    pub(super) fn condition(&self) -> Condition {
        match self {
            Self::Exact(name) => Condition::Host(name.clone()),
            Self::Subdomains(name) => Condition::Subdomain(name.clone()),
        }
    }

    pub(super) fn within(&self, outer: &Self) -> bool {
        match (self, outer) {
            (Self::Exact(name) | Self::Subdomains(name), Self::Subdomains(outer)) => {
                name.strip_suffix(outer.as_str()).is_some_and(|front| front.ends_with('.'))
            }
            _ => false,
        }
    }
}

impl LocationPattern {
    pub(super) fn condition(&self) -> Condition {
        match self {
            Self::Exact(path) => Condition::Path(path.clone()),
            Self::Prefix(path) if path.is_empty() => Condition::Always,
            Self::Prefix(path) => Condition::PathPrefix(path.clone()),
        }
    }

    fn within(&self, outer: &Self) -> bool {
        let Self::Prefix(outer) = outer else { return false };
        match self {
            Self::Exact(path) => {
                path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Prefix(path) => path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with('/')),
        }
    }

    /// The path in route syntax.
    pub(super) fn route(&self) -> String {
        match self {
            Self::Exact(path) => path.clone(),
            Self::Prefix(path) => format!("{path}/{{*rest}}"),
        }
    }
}

impl<'a> ServerBlock<'a> {
    /// Parses a `server` block.
    pub(super) fn read(directive: &'a Directive, outer: &InheritedDirectives<'a>, notes: &mut Notes) -> Self {
        let block = directive.children();
        let inherited = outer.enter_block(block, notes);
        let mut server = Self {
            names: Vec::new(),
            first_name: "",
            is_default: false,
            locations: Vec::new(),
            directives: inherited.clone(),
            directive,
        };
        let mut named = false;
        for it in block {
            match it.name.as_str() {
                "server_name" => {
                    named = true;
                    if server.first_name.is_empty() {
                        server.first_name = it.first_arg();
                    }
                    server.names(it, notes);
                }
                "listen" => server.is_default |= it.args.iter().any(|arg| arg == "default_server" || arg == "default"),
                _ => {}
            }
        }
        server.is_default |= !named;
        // A `return` in the server block takes precedence over all locations.
        if let Some(action) = block.iter().find(|it| it.name == "return") {
            let pattern = LocationPattern::Prefix(String::new());
            server.locations.push(LocationBlock {
                pattern,
                directives: inherited,
                action: Some(action),
                has_nested: false,
                directive: action,
            });
            let unreachable = block.iter().filter(|it| it.name == "location");
            unreachable.for_each(|it| notes.unsupported(it, "unreachable: the `return` of the server has precedence"));
        } else {
            server.locations(block, &inherited, notes);
        }
        server
    }

    fn names(&mut self, directive: &'a Directive, notes: &mut Notes) {
        for arg in &directive.args {
            let lower = arg.to_ascii_lowercase();
            let names = match lower.strip_prefix("*.") {
                _ if lower.is_empty() || lower == "_" => {
                    self.is_default = true;
                    continue;
                }
                Some(name) if is_host(name) => vec![ServerName::Subdomains(name.to_owned())],
                _ => match lower.strip_prefix('.') {
                    Some(name) if is_host(name) => {
                        vec![ServerName::Exact(name.to_owned()), ServerName::Subdomains(name.to_owned())]
                    }
                    _ if is_host(&lower) => vec![ServerName::Exact(lower.clone())],
                    _ => {
                        notes.unsupported(directive, format!("'{arg}' is neither a host nor *.host; list the hosts"));
                        continue;
                    }
                },
            };
            self.names.extend(names);
        }
    }

    fn locations(&mut self, block: &'a [Directive], outer: &InheritedDirectives<'a>, notes: &mut Notes) {
        for directive in block.iter().filter(|it| it.name == "location") {
            let inherited = outer.enter_block(directive.children(), notes);
            match pattern(directive) {
                Ok(pattern) => {
                    self.location(directive, pattern, inherited.clone(), notes);
                    self.locations(directive.children(), &inherited, notes);
                }
                Err(reason) if inherited.access_control.is_some() => {
                    let warning = "requests that it denies match the route of a shorter path: add a route first";
                    notes.unsupported(directive, format!("{reason}; {warning}"));
                }
                Err(reason) => notes.unsupported(directive, reason),
            }
        }
    }

    fn location(
        &mut self,
        directive: &'a Directive,
        pattern: LocationPattern,
        inherited: InheritedDirectives<'a>,
        notes: &mut Notes,
    ) {
        let block = directive.children();
        for it in block.iter().filter(|it| !is_inherited(&it.name)) {
            match it.name.as_str() {
                "proxy_pass" | "return" | "location" => {}
                name => Unsupported::of(name).add_note(it, notes),
            }
        }
        let action = block.iter().find(|it| it.name == "return" || it.name == "proxy_pass");
        let has_nested = block.iter().any(|it| it.name == "location");
        if action.is_none() && !has_nested {
            notes.unsupported(
                directive,
                "no proxy_pass and no return: the response is 501 until the route is changed manually",
            );
        }
        self.locations.push(LocationBlock { pattern, directives: inherited, action, has_nested, directive });
    }

    /// Locations such as `/a` and `/a/` overlap below `/a`: the first is restricted to `/a` itself.
    pub(super) fn resolve_overlaps(&mut self, notes: &mut Notes) {
        let ends_with_slash = |it: &LocationBlock<'_>| it.directive.args.last().is_some_and(|path| path.ends_with('/'));
        for at in 0..self.locations.len() {
            let LocationPattern::Prefix(path) = self.locations[at].pattern.clone() else { continue };
            let same = |it: &&LocationBlock<'_>| it.pattern == LocationPattern::Prefix(path.clone());
            if ends_with_slash(&self.locations[at]) || path.is_empty() {
                continue;
            }
            if self.locations.iter().filter(same).any(ends_with_slash) {
                self.locations[at].pattern = LocationPattern::Exact(path);
            } else {
                let reason =
                    format!("nginx matches all paths with this prefix; the route matches {path} and its subpaths");
                notes.changed(self.locations[at].directive, reason);
            }
        }
    }

    /// Condition for requests to this server whose location satisfies the predicate.
    pub(super) fn path_condition(&self, fits: impl Fn(&InheritedDirectives<'a>) -> bool) -> Condition {
        let root = LocationPattern::Prefix(String::new());
        let default = self.locations.iter().find(|it| it.pattern == root).map_or(&self.directives, |it| &it.directives);
        let others = self.locations.iter().filter(|it| it.pattern != root);
        let sets: Vec<(LocationPattern, bool)> = others.map(|it| (it.pattern.clone(), fits(&it.directives))).collect();
        innermost(fits(default), &sets, LocationPattern::within, LocationPattern::condition)
    }
}

/// Condition for requests whose server satisfies the predicate.
pub(super) fn host_condition(servers: &[ServerBlock<'_>], default: usize, fits: impl Fn(usize) -> bool) -> Condition {
    let mut sets: Vec<(ServerName, bool)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        for name in &server.names {
            if !sets.iter().any(|(known, _)| known == name) {
                sets.push((name.clone(), fits(at)));
            }
        }
    }
    innermost(fits(default), &sets, ServerName::within, ServerName::condition)
}

fn pattern(directive: &Directive) -> Result<LocationPattern, String> {
    let (exact, path) = match directive.args.as_slice() {
        [mark, path] if mark == "=" => (true, path),
        [mark, path] if mark == "^~" => (false, path),
        [mark, _] if mark == "~" || mark == "~*" => {
            return Err("regular expressions are not supported in routes; add routes for the intended paths".to_owned());
        }
        [path] if path.starts_with('@') => return Err("named locations are not supported; add a route".to_owned()),
        [path] => match path.strip_prefix('=') {
            Some(_) => return Err("add a space after the `=`".to_owned()),
            None => (false, path),
        },
        _ => return Err("expected `location [= | ^~] /path`".to_owned()),
    };
    let plain = |b: u8| b.is_ascii_graphic() && !b"*{}?#".contains(&b);
    if !path.starts_with('/') || !path.bytes().all(plain) || path.contains("//") {
        return Err("unsupported path; add a route manually".to_owned());
    }
    if path.split('/').count() > 60 {
        return Err("too many path segments; add a route manually".to_owned());
    }
    let short = path.strip_suffix('/').unwrap_or(path);
    Ok(if exact { LocationPattern::Exact(path.clone()) } else { LocationPattern::Prefix(short.to_owned()) })
}
