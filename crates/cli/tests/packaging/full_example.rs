//! `examples/rules/full.yaml` is what its head says: every setting is in it, those that are off can be turned on, and
//! those called defaults are.

use std::collections::BTreeSet;

use serde_json::Value;
use sluicegate_config::Settings;

use crate::read;

fn text() -> String {
    read("examples/rules/full.yaml")
}

fn settings(text: &str) -> Settings {
    let loaded = sluicegate_config::parse("full.yaml", text).unwrap_or_else(|report| panic!("{report}\n{text}"));
    assert!(loaded.warnings.is_empty(), "{}\n{text}", loaded.warnings);
    loaded.settings
}

/// What a line sets, and how deep: the text before its colon.
fn setting(line: &str) -> Option<&str> {
    line.split_once(':').map(|(setting, _)| setting)
}

/// The same file with everything turned on that is off.
fn all_on(text: &str) -> String {
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
                // It is the other choice of the line above; entries of lists stand beside each other.
                if !rest.starts_with('-') && lines.last().is_some_and(|above| setting(above) == setting(&on)) {
                    lines.pop();
                }
                lines.push(on);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The same file without what is called a default. Sections that have nothing left in them are there all the same.
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

/// The first line by which two settings differ, as they are shown for programmers.
fn difference(one: &Settings, other: &Settings) -> Option<String> {
    let [one, other] = [one, other].map(|settings| format!("{settings:#?}"));
    let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other)?;
    Some(format!("{} and {}", differs.0.trim(), differs.1.trim()))
}

/// The names of all fields in a schema.
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
fn it_has_every_setting() {
    let mut known = BTreeSet::new();
    fields(&sluicegate_config::schema(), &mut known);
    assert!(known.len() > 100, "{known:?}");
    let text = all_on(&text());
    let words: BTreeSet<&str> = text
        .lines()
        .map(|line| line.split(" # ").next().unwrap_or_default())
        .flat_map(|line| line.split([' ', '{', ',']).filter_map(|word| word.strip_suffix(':')))
        .collect();
    let absent: Vec<_> = known.iter().filter(|field| !words.contains(field.as_str())).collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn what_is_off_can_be_turned_on() {
    let (as_it_is, on) = (text(), all_on(&text()));
    assert_ne!(settings(&as_it_is), settings(&on));
    let left = on.lines().filter(|line| line.trim_start().starts_with('#') && !line.trim_start().starts_with("# "));
    assert_eq!(left.filter(|line| line.trim() != "#").count(), 0, "{on}");
}

#[test]
fn defaults_are_defaults() {
    for text in [text(), all_on(&text())] {
        let short = without_defaults(&text);
        let gone = text.lines().count() - short.lines().count();
        assert!(gone > 60, "only {gone} lines were left out:\n{short}");
        assert_eq!(difference(&settings(&short), &settings(&text)), None, "{short}");
        assert!(settings(&short) == settings(&text));
    }
}
