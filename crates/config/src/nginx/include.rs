//! Reading a configuration from its files: `include` is followed, with globs.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::ImportError;
use super::directive::{self, Directive};
use super::remark::Remarks;
use crate::source::LARGEST_FILE;

/// How deep files include each other.
const DEEPEST: usize = 16;

/// The most files of a configuration.
const MOST_FILES: usize = 1_000;

/// Reads a file and all that it includes.
pub(super) fn read(main: &Path, remarks: &mut Remarks) -> Result<Vec<Directive>, ImportError> {
    let folder = main.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = Reader { folder, left: LARGEST_FILE, files: 0, remarks };
    reader.file(main, 0)
}

struct Reader<'a> {
    /// The folder of the first file, which nginx takes relative names from.
    folder: PathBuf,
    /// How many bytes may still be read.
    left: u64,
    files: usize,
    remarks: &'a mut Remarks,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let name: String = path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let name: Arc<str> = name.into();
        let unreadable = |why: String| ImportError::Unreadable { file: Arc::clone(&name), why };
        self.files += 1;
        if self.files > MOST_FILES {
            return Err(unreadable(format!("more than {MOST_FILES} files are included: does one include itself?")));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(self.left + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(format!("{error}; check the path and that this user may read it")))?;
        let size = bytes.len() as u64;
        if size > self.left {
            let most = LARGEST_FILE >> 20;
            return Err(unreadable(format!("the configuration has more than {most} MiB: import its parts one by one")));
        }
        self.left -= size;
        // Comments in other encodings are common, and harmless.
        let directives = directive::parse(&name, &String::from_utf8_lossy(&bytes))?;
        self.expand(directives, path, depth)
    }

    /// Puts included directives in the place of each `include`.
    fn expand(&mut self, list: Vec<Directive>, of: &Path, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let mut expanded = Vec::with_capacity(list.len());
        for mut directive in list {
            if directive.name == "include" && directive.block.is_none() {
                for path in self.included(&directive, of) {
                    if depth == DEEPEST {
                        let what =
                            format!("files include each other more than {DEEPEST} deep: does one include itself?");
                        return Err(ImportError::Syntax { place: directive.place, what });
                    }
                    expanded.append(&mut self.file(&path, depth + 1)?);
                }
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand(block, of, depth)?);
            }
            expanded.push(directive);
        }
        Ok(expanded)
    }

    /// The files that an `include` names.
    fn included(&mut self, directive: &Directive, of: &Path) -> Vec<PathBuf> {
        let pattern = directive.first();
        let beside = of.parent().unwrap_or(Path::new("")).to_owned();
        for folder in [&self.folder, &beside] {
            let found = glob(&folder.join(pattern));
            if !found.is_empty() {
                return found;
            }
        }
        let is_glob = pattern.contains(['*', '?', '[']);
        if !is_glob && Path::new(pattern).file_name().is_none_or(|name| name != "mime.types") {
            let why = "there is no such file: what it says is missing here; import again where it can be found";
            self.remarks.not_carried(directive, why);
        }
        Vec::new()
    }
}

/// The files that fit a pattern, in the order of their names.
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
        let wanted: Vec<char> = text.chars().collect();
        let mut next = Vec::new();
        for folder in found {
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let entries = fs::read_dir(here).into_iter().flatten().flatten();
            let fitting = entries.filter(|entry| {
                let name: Vec<char> = entry.file_name().to_string_lossy().chars().collect();
                (name.first() != Some(&'.') || wanted.first() == Some(&'.')) && fits(&wanted, &name)
            });
            next.extend(fitting.map(|entry| folder.join(entry.file_name())).take(MOST_FILES + 1));
        }
        next.sort();
        found = next;
    }
    found.retain(|path| path.is_file());
    found
}

/// Whether a name fits a pattern of `*`, `?` and `[a-z]`.
fn fits(pattern: &[char], name: &[char]) -> bool {
    // The last star, and how much of the name it has taken: enough to go back to.
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
            Some('[') => class(&pattern[p..], name[n]),
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

/// How long the class at the start of the pattern is, if the character is in it.
fn class(pattern: &[char], c: char) -> Option<usize> {
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
    fn names_fit_patterns() {
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
            assert_eq!(fits(&chars(pattern), &chars(name)), expected, "{pattern} {name}");
        }
    }
}
