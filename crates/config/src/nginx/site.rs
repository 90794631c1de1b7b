//! Servers and their locations, with what is in force in each.

use super::condition::Condition;
use super::directive::Directive;
use super::force::{Force, is_host, is_inherited};
use super::known::Known;
use super::nested::innermost;
use super::remark::Remarks;

/// A `server`.
#[derive(Debug)]
pub(super) struct Server<'a> {
    /// Its names, without those that cannot be carried over.
    pub(super) names: Vec<Name>,
    /// What nginx calls it.
    pub(super) first_name: &'a str,
    /// Whether it says that it answers for all other hosts.
    pub(super) is_default: bool,
    pub(super) force: Force<'a>,
    pub(super) locations: Vec<Location<'a>>,
    pub(super) directive: &'a Directive,
}

/// A host, or all hosts below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Exact(String),
    Below(String),
}

/// A `location`.
#[derive(Debug)]
pub(super) struct Location<'a> {
    pub(super) pattern: Pattern,
    pub(super) force: Force<'a>,
    /// The `proxy_pass` or `return`.
    pub(super) action: Option<&'a Directive>,
    /// Whether it has locations within it.
    pub(super) holds_others: bool,
    pub(super) directive: &'a Directive,
}

/// Which paths a location is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// This one.
    Exact(String),
    /// This one and those below it; empty for all.
    Below(String),
}

impl Name {
    pub(super) fn condition(&self) -> Condition {
        match self {
            Self::Exact(name) => Condition::Host(name.clone()),
            Self::Below(name) => Condition::HostBelow(name.clone()),
        }
    }

    pub(super) fn within(&self, outer: &Self) -> bool {
        match (self, outer) {
            (Self::Exact(name) | Self::Below(name), Self::Below(outer)) => {
                name.strip_suffix(outer.as_str()).is_some_and(|front| front.ends_with('.'))
            }
            _ => false,
        }
    }
}

impl Pattern {
    pub(super) fn condition(&self) -> Condition {
        match self {
            Self::Exact(path) => Condition::Path(path.clone()),
            Self::Below(path) if path.is_empty() => Condition::Always,
            Self::Below(path) => Condition::PathBelow(path.clone()),
        }
    }

    fn within(&self, outer: &Self) -> bool {
        let Self::Below(outer) = outer else { return false };
        match self {
            Self::Exact(path) => {
                path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Below(path) => path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with('/')),
        }
    }

    /// The path that a route takes.
    pub(super) fn route(&self) -> String {
        match self {
            Self::Exact(path) => path.clone(),
            Self::Below(path) => format!("{path}/{{*rest}}"),
        }
    }
}

impl<'a> Server<'a> {
    /// Reads a `server` block.
    pub(super) fn read(directive: &'a Directive, around: &Force<'a>, remarks: &mut Remarks) -> Self {
        let block = directive.inner();
        let force = around.within(block, remarks);
        let mut server = Self {
            names: Vec::new(),
            first_name: "",
            is_default: false,
            locations: Vec::new(),
            force: force.clone(),
            directive,
        };
        let mut named = false;
        for it in block {
            match it.name.as_str() {
                "server_name" => {
                    named = true;
                    if server.first_name.is_empty() {
                        server.first_name = it.first();
                    }
                    server.names(it, remarks);
                }
                "listen" => server.is_default |= it.args.iter().any(|arg| arg == "default_server" || arg == "default"),
                _ => {}
            }
        }
        server.is_default |= !named;
        // A `return` of the server answers before any location is looked at.
        if let Some(action) = block.iter().find(|it| it.name == "return") {
            let pattern = Pattern::Below(String::new());
            server.locations.push(Location {
                pattern,
                force,
                action: Some(action),
                holds_others: false,
                directive: action,
            });
            let dead = block.iter().filter(|it| it.name == "location");
            dead.for_each(|it| remarks.not_carried(it, "it is never reached: the server's `return` comes before it"));
        } else {
            server.locations(block, &force, remarks);
        }
        server
    }

    fn names(&mut self, directive: &'a Directive, remarks: &mut Remarks) {
        for arg in &directive.args {
            let lower = arg.to_ascii_lowercase();
            let names = match lower.strip_prefix("*.") {
                _ if lower.is_empty() || lower == "_" => {
                    self.is_default = true;
                    continue;
                }
                Some(name) if is_host(name) => vec![Name::Below(name.to_owned())],
                _ => match lower.strip_prefix('.') {
                    Some(name) if is_host(name) => vec![Name::Exact(name.to_owned()), Name::Below(name.to_owned())],
                    _ if is_host(&lower) => vec![Name::Exact(lower.clone())],
                    _ => {
                        remarks.not_carried(directive, format!("'{arg}' is neither a host nor *.host; name the hosts"));
                        continue;
                    }
                },
            };
            self.names.extend(names);
        }
    }

    fn locations(&mut self, block: &'a [Directive], around: &Force<'a>, remarks: &mut Remarks) {
        for directive in block.iter().filter(|it| it.name == "location") {
            let force = around.within(directive.inner(), remarks);
            match pattern(directive) {
                Ok(pattern) => {
                    self.location(directive, pattern, force.clone(), remarks);
                    self.locations(directive.inner(), &force, remarks);
                }
                Err(why) if force.guard.is_some() => {
                    let warning = "whom it keeps out can come in by the route of a shorter path: mend that first";
                    remarks.not_carried(directive, format!("{why}; {warning}"));
                }
                Err(why) => remarks.not_carried(directive, why),
            }
        }
    }

    fn location(&mut self, directive: &'a Directive, pattern: Pattern, force: Force<'a>, remarks: &mut Remarks) {
        let block = directive.inner();
        for it in block.iter().filter(|it| !is_inherited(&it.name)) {
            match it.name.as_str() {
                "proxy_pass" | "return" | "location" => {}
                name => Known::of(name).remark(it, remarks),
            }
        }
        let action = block.iter().find(|it| it.name == "return" || it.name == "proxy_pass");
        let holds_others = block.iter().any(|it| it.name == "location");
        if action.is_none() && !holds_others {
            remarks.not_carried(
                directive,
                "it neither proxies nor returns: answered with 501 until the route is changed by hand",
            );
        }
        self.locations.push(Location { pattern, force, action, holds_others, directive });
    }

    /// Two locations such as `/a` and `/a/` mean the same below `/a`: the first is left with `/a` alone.
    pub(super) fn settle(&mut self, remarks: &mut Remarks) {
        let ends = |it: &Location<'_>| it.directive.args.last().is_some_and(|path| path.ends_with('/'));
        for at in 0..self.locations.len() {
            let Pattern::Below(path) = self.locations[at].pattern.clone() else { continue };
            let same = |it: &&Location<'_>| it.pattern == Pattern::Below(path.clone());
            if ends(&self.locations[at]) || path.is_empty() {
                continue;
            }
            if self.locations.iter().filter(same).any(ends) {
                self.locations[at].pattern = Pattern::Exact(path);
            } else {
                let why = format!("nginx takes all paths that begin so; here it is {path} and what is below it");
                remarks.changed(self.locations[at].directive, why);
            }
        }
    }

    /// When a request to this server comes to a location that fits.
    pub(super) fn paths(&self, fits: impl Fn(&Force<'a>) -> bool) -> Condition {
        let root = Pattern::Below(String::new());
        let default = self.locations.iter().find(|it| it.pattern == root).map_or(&self.force, |it| &it.force);
        let others = self.locations.iter().filter(|it| it.pattern != root);
        let sets: Vec<(Pattern, bool)> = others.map(|it| (it.pattern.clone(), fits(&it.force))).collect();
        innermost(fits(default), &sets, Pattern::within, Pattern::condition)
    }
}

/// When a request is for one of the servers that fit.
pub(super) fn hosts(servers: &[Server<'_>], default: usize, fits: impl Fn(usize) -> bool) -> Condition {
    let mut sets: Vec<(Name, bool)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        for name in &server.names {
            if !sets.iter().any(|(known, _)| known == name) {
                sets.push((name.clone(), fits(at)));
            }
        }
    }
    innermost(fits(default), &sets, Name::within, Name::condition)
}

fn pattern(directive: &Directive) -> Result<Pattern, String> {
    let (exact, path) = match directive.args.as_slice() {
        [mark, path] if mark == "=" => (true, path),
        [mark, path] if mark == "^~" => (false, path),
        [mark, _] if mark == "~" || mark == "~*" => {
            return Err("routes have no regular expressions; add a route for the paths that are meant".to_owned());
        }
        [path] if path.starts_with('@') => return Err("there are no named locations; add a route".to_owned()),
        [path] => match path.strip_prefix('=') {
            Some(_) => return Err("put a space behind the `=`".to_owned()),
            None => (false, path),
        },
        _ => return Err("a location is written `location [= | ^~] /path`".to_owned()),
    };
    let plain = |b: u8| b.is_ascii_graphic() && !b"*{}?#".contains(&b);
    if !path.starts_with('/') || !path.bytes().all(plain) || path.contains("//") {
        return Err("its path is not one that routes know; add a route by hand".to_owned());
    }
    if path.split('/').count() > 60 {
        return Err("its path has too many segments; add a route by hand".to_owned());
    }
    let short = path.strip_suffix('/').unwrap_or(path);
    Ok(if exact { Pattern::Exact(path.clone()) } else { Pattern::Below(short.to_owned()) })
}
