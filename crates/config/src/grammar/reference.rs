//! Renders the tables as the Markdown reference.

use std::fmt::Write;

use super::{Presence, Section, Shape, tables};

/// Generates the rule file reference: one table per section.
pub fn reference() -> String {
    let mut page = String::new();
    for section in tables::sections() {
        write_section(&mut page, section);
    }
    page
}

fn write_section(page: &mut String, section: &Section) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "### {}\n\n{}\n", capitalized(title(section)), section.doc);
    let _ = writeln!(page, "| field | type | default | example | description |\n|---|---|---|---|---|");
    for field in section.fields {
        let default = match field.presence {
            Presence::Required => "required",
            Presence::Default(default) => default,
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | `{}` | {}{} |",
            field.name,
            describe_shape(&field.shape),
            default,
            field.example.replace('|', "\\|"),
            field.doc,
            keyword_meanings(&field.shape),
        );
    }
    page.push('\n');
}

/// The name of a section without its article.
fn title(section: &Section) -> &'static str {
    let mut articles = ["a ", "an ", "the "].into_iter();
    articles.find_map(|article| section.name.strip_prefix(article)).unwrap_or(section.name)
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn describe_shape(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::Bool => "`true`, `false`".to_owned(),
        Shape::Name => "name".to_owned(),
        Shape::Count(min, u64::MAX) => format!("integer (at least {min})"),
        Shape::Count(min, max) => format!("integer ({min} to {max})"),
        Shape::Duration => "duration".to_owned(),
        Shape::Size => "size".to_owned(),
        Shape::Rate => "rate".to_owned(),
        Shape::SizeRate => "byte rate".to_owned(),
        Shape::Keyword(words) => words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", "),
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
        Shape::HostPattern => "host pattern".to_owned(),
        Shape::Host => "host".to_owned(),
        Shape::HeaderName => "header name".to_owned(),
        Shape::AttributeLocation => "attribute source".to_owned(),
        Shape::ActualCost => "cost source".to_owned(),
        Shape::Location => "path or URL".to_owned(),
        Shape::Refusals => "`N refusals in DURATION`".to_owned(),
        Shape::Percentage => "percentage".to_owned(),
        Shape::Ceiling => "rate or `N% of capacity`".to_owned(),
        Shape::Comparison(_) => "comparison".to_owned(),
        Shape::HeaderValue => "string or integer".to_owned(),
        Shape::Json => "any value".to_owned(),
        Shape::Section(section) => format!("map: {}", title(section)),
        Shape::OneOf(_) => "map: long form".to_owned(),
        Shape::List(of) => format!("list of {}", list_items(of)),
        Shape::Map(of) => format!("map of names to {}", grouped(of)),
        Shape::Either(shapes) => shapes.iter().map(describe_shape).collect::<Vec<_>>().join(" or "),
    }
}

/// The item type of a list, in the plural or in parentheses.
fn list_items(shape: &Shape) -> String {
    let described = grouped(shape);
    if described.starts_with('(') { described } else { format!("{described}s") }
}

/// Puts alternatives and maps in parentheses, so that the type is unambiguous.
fn grouped(shape: &Shape) -> String {
    let described = describe_shape(shape);
    let is_compound = [" or ", ": "].iter().any(|part| described.contains(part));
    if is_compound { format!("({described})") } else { described }
}

fn keyword_meanings(shape: &Shape) -> String {
    shape.keywords().iter().map(|(word, doc)| format!("<br>`{word}`: {doc}")).collect()
}
