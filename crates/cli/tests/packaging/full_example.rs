//! `examples/rules/full.yaml` keeps the promises of its head: it has every setting, commented settings are valid,
//! and stated defaults are the defaults.

use std::collections::BTreeSet;

use serde_json::Value;
use sluicegate_config::Settings;

use super::read;

fn text() -> String {
    read("examples/rules/full.yaml")
}

fn settings(text: &str) -> Settings {
    let loaded = sluicegate_config::parse("full.yaml", text).unwrap_or_else(|report| panic!("{report}\n{text}"));
    assert!(loaded.warnings.is_empty(), "{}\n{text}", loaded.warnings);
    loaded.settings
}

/// The setting of a line with its indentation: the text before the colon.
fn setting(line: &str) -> Option<&str> {
    line.split_once(':').map(|(setting, _)| setting)
}

/// The file with all commented settings enabled.
fn uncomment_all(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        match rest
            .strip_prefix('#')
            .filter(|rest| rest.starts_with(|first: char| first == '-' || first.is_alphabetic()))
        {
            None => lines.push(line.to_owned()),
            Some(rest) => {
                let on = format!("{indent}{rest}");
                // It is the alternative of the line above; list entries coexist.
                if !rest.starts_with('-') && lines.last().is_some_and(|above| setting(above) == setting(&on)) {
                    lines.pop();
                }
                lines.push(on);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The file without settings marked as default. Empty sections stay.
fn without_defaults(text: &str) -> String {
    let is_default = |line: &&str| line.split_once(" # default").is_some_and(|(before, _)| setting(before).is_some());
    let is_blank = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let lines = text.lines().filter(|line| !is_default(line) && !is_blank(line));
    let lines: Vec<&str> = lines.filter_map(|line| line.split(" # ").next()).map(str::trim_end).collect();
    let depth = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let mut short = String::new();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or(0, |next| depth(next));
        let is_empty = line.ends_with(':') && next <= depth(line);
        short.extend([*line, if is_empty { " {}\n" } else { "\n" }]);
    }
    short
}

/// The first line that differs in the debug output of two settings.
fn difference(one: &Settings, other: &Settings) -> Option<String> {
    let [one, other] = [one, other].map(|settings| format!("{settings:#?}"));
    let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other)?;
    Some(format!("{} and {}", differs.0.trim(), differs.1.trim()))
}

/// Names of all fields in a schema.
fn fields(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                into.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| fields(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        _ => {}
    }
}

#[test]
fn full_example_has_every_setting() {
    let mut known = BTreeSet::new();
    fields(&sluicegate_config::schema(), &mut known);
    assert!(known.len() > 100, "{known:?}");
    let text = uncomment_all(&text());
    let words: BTreeSet<&str> = text
        .lines()
        .map(|line| line.split(" # ").next().unwrap_or_default())
        .flat_map(|line| line.split([' ', '{', ',']).filter_map(|word| word.strip_suffix(':')))
        .collect();
    let absent: Vec<_> = known.iter().filter(|field| !words.contains(field.as_str())).collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn commented_settings_are_valid() {
    let (as_it_is, on) = (text(), uncomment_all(&text()));
    assert_ne!(settings(&as_it_is), settings(&on));
    let left = on.lines().filter(|line| line.trim_start().starts_with('#') && !line.trim_start().starts_with("# "));
    assert_eq!(left.filter(|line| line.trim() != "#").count(), 0, "{on}");
}

#[test]
fn stated_defaults_are_the_defaults() {
    for text in [text(), uncomment_all(&text())] {
        let short = without_defaults(&text);
        let removed = text.lines().count() - short.lines().count();
        assert!(removed > 60, "only {removed} lines were removed:\n{short}");
        assert_eq!(difference(&settings(&short), &settings(&text)), None, "{short}");
        assert!(settings(&short) == settings(&text));
    }
}
