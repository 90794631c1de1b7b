//! The tables as Markdown, for people.

use std::fmt::Write;

use super::{Presence, Section, Shape, tables};

/// The reference of the rule file: one table per section.
pub fn reference() -> String {
    let mut page = String::new();
    for section in tables::ALL {
        write_section(&mut page, section);
    }
    page
}

fn write_section(page: &mut String, section: &Section) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "### {}\n\n{}\n", title(section), section.doc);
    let _ = writeln!(page, "| field | takes | left out | example | what it is for |\n|---|---|---|---|---|");
    for field in section.fields {
        let default = match field.presence {
            Presence::Required => "required",
            Presence::Default(default) => default,
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | `{}` | {}{} |",
            field.name,
            takes(&field.shape),
            default,
            field.example.replace('|', "\\|"),
            field.doc,
            meanings(&field.shape),
        );
    }
    page.push('\n');
}

fn title(section: &Section) -> String {
    let mut letters = section.name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn takes(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Truth => "`true`, `false`".to_owned(),
        Shape::Name => "name".to_owned(),
        Shape::Count(least, u64::MAX) => format!("number from {least}"),
        Shape::Count(least, most) => format!("number, {least} to {most}"),
        Shape::Duration => "duration".to_owned(),
        Shape::Size => "size".to_owned(),
        Shape::Rate => "rate".to_owned(),
        Shape::SizeRate => "rate of bytes".to_owned(),
        Shape::Word(words) => words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Condition => "condition".to_owned(),
        Shape::Target => "target".to_owned(),
        Shape::Attribute => "attribute".to_owned(),
        Shape::Address => "address:port".to_owned(),
        Shape::Network => "network".to_owned(),
        Shape::Store => "`memory` or URL".to_owned(),
        Shape::Url => "URL".to_owned(),
        Shape::RoutePath => "path pattern".to_owned(),
        Shape::Path => "path".to_owned(),
        Shape::Method => "method".to_owned(),
        Shape::HostPattern => "host, or `*.` and a host".to_owned(),
        Shape::Host => "host".to_owned(),
        Shape::HeaderName => "header name".to_owned(),
        Shape::Place => "place".to_owned(),
        Shape::Actual => "source".to_owned(),
        Shape::Location => "path or URL".to_owned(),
        Shape::Refusals => "`N refusals in TIME`".to_owned(),
        Shape::Share => "share".to_owned(),
        Shape::Ceiling => "rate or `N% of capacity`".to_owned(),
        Shape::Comparison(_) => "comparison".to_owned(),
        Shape::HeaderValue => "text or number".to_owned(),
        Shape::Json => "anything".to_owned(),
        Shape::Section(section) => format!("map: {}", section.name),
        Shape::OneOf(_) => "map: one of the long forms".to_owned(),
        Shape::List(of) => format!("list of: {}", as_one(of)),
        Shape::Map(of) => format!("map of names to: {}", as_one(of)),
        Shape::Either(shapes) => shapes.iter().map(takes).collect::<Vec<_>>().join(" or "),
    }
}

/// In brackets if it is several, so that it can be told where a list's own choice ends.
fn as_one(shape: &Shape) -> String {
    let taken = takes(shape);
    if taken.contains(" or ") { format!("({taken})") } else { taken }
}

fn meanings(shape: &Shape) -> String {
    shape.words().iter().map(|(word, doc)| format!("<br>`{word}`: {doc}")).collect()
}
