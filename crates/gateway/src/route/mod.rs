//! Which request goes where.
//!
//! Of the routes that fit a request, the one with the most exact host wins: a name, then `*.` with the
//! longest name, then any host. Among those, the one with the most exact path does. Routes for other
//! methods do not count, but if there are only such, the client is told which methods there are.

mod paths;

use http::Method;
use rapidhash::RapidHashMap;
use sluicegate_config::settings;
use thiserror::Error;

use paths::Paths;

/// All routes. What they lead to is known by its number.
#[derive(Debug, Default)]
pub(crate) struct Router {
    /// By name, in lower case.
    named: RapidHashMap<String, Hosted>,
    /// By what names end with, `.example.com`; the longest first.
    below: Vec<(String, Hosted)>,
    any: Hosted,
}

/// The routes of one host.
#[derive(Debug, Default)]
struct Hosted {
    /// For methods that a route names.
    by_method: Vec<(Method, Paths)>,
    /// For all others.
    other: Paths,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Along this route.
    Route(usize),
    /// Nowhere: but with other methods there are routes.
    OtherMethod,
    /// Nowhere.
    Nothing,
}

/// Routes that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// A method that makes no sense.
    #[error("route {path}: {method} is no method")]
    Method {
        /// The path.
        path: String,
        /// The method.
        method: String,
    },
}

impl Router {
    /// Routes by their positions.
    pub(crate) fn new(routes: &[settings::Route]) -> Result<Self, RouteError> {
        let mut by_host: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
        for (position, route) in routes.iter().enumerate() {
            let host = route.host.as_deref();
            match by_host.iter_mut().find(|(known, _)| known.map(str::to_ascii_lowercase) == lower(host)) {
                Some((_, positions)) => positions.push(position),
                None => by_host.push((host, vec![position])),
            }
        }
        let mut router = Self::default();
        for (host, positions) in by_host {
            let hosted = Hosted::new(routes, &positions)?;
            match lower(host) {
                None => router.any = hosted,
                Some(host) => match host.strip_prefix('*') {
                    Some(below) => router.below.push((below.to_owned(), hosted)),
                    None => drop(router.named.insert(host, hosted)),
                },
            }
        }
        router.below.sort_by_key(|(below, _)| std::cmp::Reverse(below.len()));
        Ok(router)
    }

    /// Whether it matters which host is asked for.
    pub(crate) fn tells_hosts_apart(&self) -> bool {
        !self.named.is_empty() || !self.below.is_empty()
    }

    /// Finds the route of a request; `host` is a name in lower case without port, the path a normal one.
    pub(crate) fn find(&self, host: &str, method: &Method, path: &str) -> Found {
        let mut found = Found::Nothing;
        for hosted in self.hosted(host) {
            match hosted.find(method, path) {
                Found::Nothing => {}
                Found::OtherMethod => found = Found::OtherMethod,
                Found::Route(route) => return Found::Route(route),
            }
        }
        found
    }

    /// The methods that a path of this host has routes for, as `Allow` lists them.
    pub(crate) fn methods(&self, host: &str, path: &str) -> String {
        let mut methods: Vec<&str> = Vec::new();
        for hosted in self.hosted(host) {
            let here = hosted.by_method.iter().filter(|(_, paths)| paths.find(path).is_some());
            methods.extend(here.map(|(method, _)| method.as_str()));
        }
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }

    /// The routes that may be of this host, the most exact first.
    fn hosted<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Hosted> {
        let named = if self.named.is_empty() { None } else { self.named.get(host) };
        // `*.example.com` is for what is below it, not for itself.
        let below =
            self.below.iter().filter(move |(below, _)| host.len() > below.len() && host.ends_with(below.as_str()));
        named.into_iter().chain(below.map(|(_, hosted)| hosted)).chain([&self.any])
    }
}

impl Hosted {
    fn new(routes: &[settings::Route], positions: &[usize]) -> Result<Self, RouteError> {
        let mut methods: Vec<Method> = Vec::new();
        for route in positions.iter().map(|position| &routes[*position]) {
            for name in &route.methods {
                let method = Method::from_bytes(name.as_bytes())
                    .map_err(|_| RouteError::Method { path: route.path.clone(), method: name.clone() })?;
                if !methods.contains(&method) {
                    methods.push(method);
                }
            }
        }
        let any = |position: &&usize| routes[**position].methods.is_empty();
        let by_method = methods.into_iter().map(|method| {
            let own = |position: &&usize| routes[**position].methods.iter().any(|name| name == method.as_str());
            // A route that names the method comes before one for all methods of the same path.
            let all = positions.iter().filter(own).chain(positions.iter().filter(any));
            Ok((method.clone(), Paths::new(routes, all.copied())))
        });
        let by_method = by_method.collect::<Result<_, RouteError>>()?;
        Ok(Self { by_method, other: Paths::new(routes, positions.iter().filter(any).copied()) })
    }

    fn find(&self, method: &Method, path: &str) -> Found {
        let own = self.by_method.iter().find(|(of, _)| of == method).map_or(&self.other, |(_, paths)| paths);
        match own.find(path) {
            Some(route) => Found::Route(route),
            None if self.by_method.iter().any(|(_, paths)| paths.find(path).is_some()) => Found::OtherMethod,
            None => Found::Nothing,
        }
    }
}

fn lower(host: Option<&str>) -> Option<String> {
    host.map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests;
