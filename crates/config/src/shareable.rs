//! Extracts the part of a rule file that a cluster can share.

use crate::settings::Settings;
use crate::tree::{self, Value};

/// Returns the rules and lists of a rule file verbatim, including comments, for a store from which all
/// processes [read them](crate::parse_shared). `None` if they cannot be extracted with the same meaning, for
/// example if they use an anchor defined elsewhere in the file.
///
/// ```
/// let text = "store: redis://127.0.0.1\nrules_from: store\n\nrules: # ours\n  - { name: total, limits: [10/s] }\nmemory: 1MiB\n";
/// let settings = sluicegate_config::parse("rules.yaml", text)?.settings;
/// let shared = sluicegate_config::shareable_text(text, &settings);
/// assert_eq!(shared.as_deref(), Some("rules: # ours\n  - { name: total, limits: [10/s] }\n"));
/// # Ok::<(), sluicegate_config::Report>(())
/// ```
pub fn shareable_text(text: &str, settings: &Settings) -> Option<String> {
    let (root, _) = tree::parse(text);
    let root = root?;
    let Value::Map(entries) = &root.value else { return None };
    let in_block = text.get(root.span.start..).is_some_and(|from| !from.starts_with('{'));
    let mut shared = String::new();
    for (index, entry) in entries.iter().enumerate() {
        if entry.key != "rules" && entry.key != "lists" {
            continue;
        }
        let end = match entries.get(index + 1) {
            Some(next) if in_block => next.key_span.start,
            None if in_block => text.len(),
            _ => entry.value.span.end,
        };
        shared.push_str(text.get(entry.key_span.start..end)?.trim_end());
        shared.push('\n');
    }
    if shared.is_empty() {
        shared.push_str("rules: []\n");
    }
    let parsed = crate::parse_shared("shared rules", &shared, settings).ok()?.settings;
    let is_same = parsed.rules == settings.rules && parsed.lists == settings.lists;
    is_same.then_some(shared)
}
