//! Reads a configuration and expands `include`, with globs.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sluicegate_config::MAX_FILE_BYTES;

use super::ImportError;
use super::directive::{self, Directive};
use super::note::Notes;

/// Maximum nesting of includes.
const MAX_DEPTH: usize = 16;

/// Maximum number of files.
const MAX_FILES: usize = 1_000;

/// Reads a file and all its includes.
pub(super) fn read(main: &Path, notes: &mut Notes) -> Result<Vec<Directive>, ImportError> {
    let directory = main.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = IncludeReader { directory, remaining_bytes: MAX_FILE_BYTES, files: 0, notes };
    reader.file(main, 0)
}

struct IncludeReader<'a> {
    /// Directory of the main file, the base of relative names.
    directory: PathBuf,
    /// Bytes that may still be read.
    remaining_bytes: u64,
    files: usize,
    notes: &'a mut Notes,
}

impl IncludeReader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let name: String = path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let name: Arc<str> = name.into();
        let unreadable = |reason: String| ImportError::Unreadable { file: Arc::clone(&name), reason };
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(unreadable(format!("more than {MAX_FILES} included files: check for an include cycle")));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(self.remaining_bytes + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(format!("{error}; check the path and the read permission")))?;
        let size = bytes.len() as u64;
        if size > self.remaining_bytes {
            let max = MAX_FILE_BYTES >> 20;
            return Err(unreadable(format!("the configuration exceeds {max} MiB: import its parts separately")));
        }
        self.remaining_bytes -= size;
        // Comments in other encodings are common and harmless.
        let directives = directive::parse(&name, &String::from_utf8_lossy(&bytes))?;
        self.expand(directives, path, depth)
    }

    /// Replaces each `include` by the included directives.
    fn expand(&mut self, list: Vec<Directive>, parent: &Path, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let mut expanded = Vec::with_capacity(list.len());
        for mut directive in list {
            if directive.name == "include" && directive.block.is_none() {
                for path in self.included(&directive, parent) {
                    if depth == MAX_DEPTH {
                        let what =
                            format!("includes are nested deeper than {MAX_DEPTH} levels: check for an include cycle");
                        return Err(ImportError::Syntax { location: directive.location, message: what });
                    }
                    expanded.append(&mut self.file(&path, depth + 1)?);
                }
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand(block, parent, depth)?);
            }
            expanded.push(directive);
        }
        Ok(expanded)
    }

    /// The files of an `include`.
    fn included(&mut self, directive: &Directive, parent: &Path) -> Vec<PathBuf> {
        let pattern = directive.first_arg();
        let sibling_directory = parent.parent().unwrap_or(Path::new("")).to_owned();
        for directory in [&self.directory, &sibling_directory] {
            let found = glob(&directory.join(pattern));
            if !found.is_empty() {
                return found;
            }
        }
        let is_glob = pattern.contains(['*', '?', '[']);
        if !is_glob && Path::new(pattern).file_name().is_none_or(|name| name != "mime.types") {
            let reason = "file not found, its directives are missing in the result; import again where the file exists";
            self.notes.unsupported(directive, reason);
        }
        Vec::new()
    }
}

/// The files that match a glob, sorted by name.
fn glob(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let Component::Normal(name) = component else {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let text = name.to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let pattern: Vec<char> = text.chars().collect();
        let mut next = Vec::new();
        for directory in found {
            let here = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
            let entries = fs::read_dir(here).into_iter().flatten().flatten();
            let matching = entries.filter(|entry| {
                let name: Vec<char> = entry.file_name().to_string_lossy().chars().collect();
                (name.first() != Some(&'.') || pattern.first() == Some(&'.')) && glob_matches(&pattern, &name)
            });
            next.extend(matching.map(|entry| directory.join(entry.file_name())).take(MAX_FILES + 1));
        }
        next.sort();
        found = next;
    }
    found.retain(|path| path.is_file());
    found
}

/// True if a name matches a glob of `*`, `?` and `[a-z]`.
fn glob_matches(pattern: &[char], name: &[char]) -> bool {
    // The last star and the length of its match, for backtracking.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class_length(&pattern[p..], name[n]),
            Some(c) => (*c == name[n]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => (p, n) = (p + step, n + 1),
            (None, Some((at, taken))) => {
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Length of the character class at the start of the pattern, if it contains the character.
fn class_length(pattern: &[char], c: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = 1 + usize::from(negated);
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let mut inside = false;
    let mut at = start;
    while at < end {
        if at + 2 < end && pattern[at + 1] == '-' {
            inside |= (pattern[at]..=pattern[at + 2]).contains(&c);
            at += 3;
        } else {
            inside |= pattern[at] == c;
            at += 1;
        }
    }
    (inside != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_names() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*", "", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("?.conf", "a.conf", true),
            ("?.conf", "ab.conf", false),
            ("[0-9]*", "10-x", true),
            ("[!0-9]*", "10-x", false),
            ("[]a]", "]", true),
            ("[", "[", false),
            ("[a", "a", false),
        ] {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(glob_matches(&chars(pattern), &chars(name)), expected, "{pattern} {name}");
        }
    }
}
