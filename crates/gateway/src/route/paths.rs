//! Routes of one host and method, by path.

use matchit::InsertError;
use sluicegate_config::settings;

use super::RouteError;

/// Finds the most exact path.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    tree: matchit::Router<usize>,
    /// A route that takes every path, if it is the only one.
    everything: Option<usize>,
}

impl Paths {
    /// The routes at these positions. Of two with the same path, the first counts.
    pub(super) fn new(routes: &[settings::Route], positions: impl Iterator<Item = usize>) -> Result<Self, RouteError> {
        let mut taken: Vec<(&str, usize)> = Vec::new();
        for position in positions {
            let path = routes[position].path.as_str();
            if !taken.iter().any(|(other, _)| *other == path) {
                taken.push((path, position));
            }
        }
        let mut paths = Self::default();
        for (path, position) in &taken {
            paths.tree.insert(*path, *position).map_err(|error| fault(path, &error))?;
        }
        for (path, position) in &taken {
            // What takes all that follows a slash takes nothing, too.
            if let Some(opening) = path.rfind("{*").map(|end| &path[..end])
                && !taken.iter().any(|(other, _)| other == &opening)
            {
                paths.tree.insert(opening, *position).map_err(|error| fault(path, &error))?;
            }
        }
        if let [(path, position)] = taken[..]
            && path.starts_with("/{*")
        {
            paths.everything = Some(position);
        }
        Ok(paths)
    }

    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.everything.or_else(|| self.tree.at(path).ok().map(|found| *found.value))
    }
}

fn fault(path: &str, error: &InsertError) -> RouteError {
    let path = path.to_owned();
    match error {
        InsertError::Conflict { with } => RouteError::Conflict { path, other: with.clone() },
        error => RouteError::Path { path, fault: error.to_string() },
    }
}
