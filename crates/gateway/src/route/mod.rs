//! Router: matches requests by host, method and path.
//!
//! Among the matching routes the most specific host wins: an exact name, then `*.` with the longest suffix,
//! then any host. Among those, the most specific path wins. Routes for other methods do not match; if there are
//! only such routes, the response lists the allowed methods.

mod paths;

use http::Method;
use rapidhash::RapidHashMap;
use sluicegate_config::settings;
use thiserror::Error;

use paths::PathTree;

/// All routes. Targets are identified by index.
#[derive(Debug, Default)]
pub(crate) struct Router {
    /// By exact name, in lower case.
    exact: RapidHashMap<String, HostRoutes>,
    /// By suffix, such as `.example.com`; the longest first.
    suffixes: Vec<(String, HostRoutes)>,
    default: HostRoutes,
}

/// The routes of one host.
#[derive(Debug, Default)]
struct HostRoutes {
    /// For methods named by a route.
    by_method: Vec<(Method, PathTree)>,
    /// For all other methods.
    any_method: PathTree,
}

/// Result of a route lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteMatch {
    /// The index of the matching route.
    Route(usize),
    /// No match, but there are routes for other methods.
    MethodNotAllowed,
    /// No match.
    NotFound,
}

/// Error in the routes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// An invalid method.
    #[error("route {path}: invalid method {method}")]
    Method {
        /// The path.
        path: String,
        /// The method.
        method: String,
    },
}

impl Router {
    /// Builds a router; routes are identified by their position.
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
            let routes_of_host = HostRoutes::new(routes, &positions)?;
            match lower(host) {
                None => router.default = routes_of_host,
                Some(host) => match host.strip_prefix('*') {
                    Some(suffix) => router.suffixes.push((suffix.to_owned(), routes_of_host)),
                    None => drop(router.exact.insert(host, routes_of_host)),
                },
            }
        }
        router.suffixes.sort_by_key(|(below, _)| std::cmp::Reverse(below.len()));
        Ok(router)
    }

    /// True if routing depends on the host.
    pub(crate) fn matches_hosts(&self) -> bool {
        !self.exact.is_empty() || !self.suffixes.is_empty()
    }

    /// Finds the route of a request; `host` is a lower-case name without port, `path` is normalized.
    pub(crate) fn find(&self, host: &str, method: &Method, path: &str) -> RouteMatch {
        let mut found = RouteMatch::NotFound;
        for host_routes in self.candidates(host) {
            match host_routes.find(method, path) {
                RouteMatch::NotFound => {}
                RouteMatch::MethodNotAllowed => found = RouteMatch::MethodNotAllowed,
                RouteMatch::Route(route) => return RouteMatch::Route(route),
            }
        }
        found
    }

    /// The methods with routes for this host and path, in the format of `Allow`.
    pub(crate) fn methods(&self, host: &str, path: &str) -> String {
        let mut methods: Vec<&str> = Vec::new();
        for host_routes in self.candidates(host) {
            let matching = host_routes.by_method.iter().filter(|(_, paths)| paths.find(path).is_some());
            methods.extend(matching.map(|(method, _)| method.as_str()));
        }
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }

    /// The candidate routes of this host, the most specific first.
    fn candidates<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a HostRoutes> {
        let exact = if self.exact.is_empty() { None } else { self.exact.get(host) };
        // `*.example.com` matches subdomains, not the domain itself.
        let suffixes =
            self.suffixes.iter().filter(move |(below, _)| host.len() > below.len() && host.ends_with(below.as_str()));
        exact.into_iter().chain(suffixes.map(|(_, hosted)| hosted)).chain([&self.default])
    }
}

impl HostRoutes {
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
            // A route that names the method precedes one for all methods with the same path.
            let all = positions.iter().filter(own).chain(positions.iter().filter(any));
            Ok((method.clone(), PathTree::new(routes, all.copied())))
        });
        let by_method = by_method.collect::<Result<_, RouteError>>()?;
        Ok(Self { by_method, any_method: PathTree::new(routes, positions.iter().filter(any).copied()) })
    }

    fn find(&self, method: &Method, path: &str) -> RouteMatch {
        let own = self.by_method.iter().find(|(of, _)| of == method).map_or(&self.any_method, |(_, paths)| paths);
        match own.find(path) {
            Some(route) => RouteMatch::Route(route),
            None if self.by_method.iter().any(|(_, paths)| paths.find(path).is_some()) => RouteMatch::MethodNotAllowed,
            None => RouteMatch::NotFound,
        }
    }
}

fn lower(host: Option<&str>) -> Option<String> {
    host.map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests;
