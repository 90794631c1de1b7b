//! Grammar of the rule file, declared once in tables.
//!
//! The [`tables`] declare sections and fields with their shapes, descriptions and defaults. The parser uses
//! them to accept fields and to detect unknown words; the [JSON schema](schema()) for editors and the
//! [reference](reference()) are generated from them. The three cannot diverge.
//!
//! ```
//! let schema = sluicegate_config::schema();
//! assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
//! assert!(sluicegate_config::reference().contains("| `on_limit` |"));
//! ```

mod reference;
mod schema;
pub(crate) mod tables;

pub use reference::reference;
pub use schema::schema;

/// A map with declared fields.
#[derive(Debug)]
pub struct Section {
    /// Name in messages, with its article: `a rule`; a field name in backticks.
    pub name: &'static str,
    /// One-line description.
    pub doc: &'static str,
    /// The declared fields.
    pub fields: &'static [Field],
}

/// A declared field.
#[derive(Debug)]
pub struct Field {
    /// Name in the file.
    pub name: &'static str,
    /// One-line description.
    pub doc: &'static str,
    /// Type of the value.
    pub shape: Shape,
    /// Required or optional.
    pub presence: Presence,
    /// Example value in file syntax.
    pub example: &'static str,
}

/// Required or optional with a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A map without the field is refused.
    Required,
    /// Optional, with a description of the default.
    Default(&'static str),
}

/// Type of a field's value.
#[derive(Debug)]
pub enum Shape {
    /// Any text.
    Text,
    /// A boolean.
    Bool,
    /// A rule's name.
    Name,
    /// An integer in this inclusive range.
    Count(u64, u64),
    /// `500ms`.
    Duration,
    /// `2MiB`.
    Size,
    /// `300/1m`.
    Rate,
    /// `2MiB/s`.
    SizeRate,
    /// One of these keywords, each with its meaning.
    Keyword(&'static [(&'static str, &'static str)]),
    /// A condition on attributes.
    Condition,
    /// A method, path, host or service.
    Target,
    /// An attribute of the request.
    Attribute,
    /// `127.0.0.1:8080`.
    Address,
    /// `10.0.0.0/8`.
    Network,
    /// `memory` or a Redis URL.
    Store,
    /// `http://127.0.0.1:9001`.
    Url,
    /// A route's path.
    RoutePath,
    /// A literal path, without parameters.
    Path,
    /// A request method.
    Method,
    /// A host, or all its subdomains.
    HostPattern,
    /// A host, with or without port.
    Host,
    /// A header name.
    HeaderName,
    /// Location of an attribute in the request.
    AttributeLocation,
    /// Source of the actual cost.
    ActualCost,
    /// Target of a redirect.
    Location,
    /// `3 refusals in 1m`.
    Refusals,
    /// `80%`.
    Percentage,
    /// `100/s` or `80% of capacity`.
    Ceiling,
    /// `> 100ms`, with a value in this unit.
    Comparison(SignalUnit),
    /// A header value: text or an integer.
    HeaderValue,
    /// Any value, converted to JSON.
    Json,
    /// A map with declared fields.
    Section(&'static Section),
    /// A map whose first field selects one of these sections.
    OneOf(&'static [&'static Section]),
    /// A non-empty list.
    List(&'static Shape),
    /// A map with user-defined names.
    Map(&'static Shape),
    /// Any of these shapes.
    Either(&'static [Shape]),
}

/// Unit of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalUnit {
    /// A plain number.
    Number,
    /// Percent, with or without `%`.
    Percent,
    /// A duration.
    Time,
    /// Bytes per second.
    BytesPerSecond,
    /// The unit of the enclosing signal.
    Inherited,
}

impl Section {
    /// Returns the field with that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Shape {
    /// The expected value, for messages: `a duration such as 500ms`.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Name => "a string".to_owned(),
            Self::Count(min, u64::MAX) => format!("an integer of at least {min}"),
            Self::Count(min, max) => format!("an integer from {min} to {max}"),
            Self::Duration => "a duration such as 500ms or 1m".to_owned(),
            Self::Size => "a size such as 2MiB".to_owned(),
            Self::Rate => "a rate such as 300/1m or 10/s".to_owned(),
            Self::SizeRate => "a byte rate such as 2MiB/s".to_owned(),
            Self::Keyword(words) => match words {
                [(word, _)] => format!("`{word}`"),
                _ => format!("one of {}", backticked_list(words.iter().map(|(word, _)| *word))),
            },
            Self::Condition => "a condition such as \"method == 'GET'\"".to_owned(),
            Self::Target => "a target such as GET /api/orders/**".to_owned(),
            Self::Attribute => "an attribute such as client.ip or header['x-tier']".to_owned(),
            Self::Address => "an address with port such as 127.0.0.1:8080".to_owned(),
            Self::Network => "a network such as 10.0.0.0/8".to_owned(),
            Self::Store => "`memory` or a URL such as redis://host:6379".to_owned(),
            Self::Url => "a URL such as http://127.0.0.1:9001".to_owned(),
            Self::RoutePath => "a path such as /api/{*rest}".to_owned(),
            Self::Path => "a path such as /healthz".to_owned(),
            Self::Method => "a method such as GET".to_owned(),
            Self::HostPattern => "a host such as shop.example.com or *.example.com".to_owned(),
            Self::Host => "a host such as shop.example.com".to_owned(),
            Self::HeaderName => "a header name such as x-real-ip".to_owned(),
            Self::AttributeLocation => "an attribute source such as header['x-api-key'] or jwt['sub']".to_owned(),
            Self::ActualCost => {
                "a cost source such as response.bytes or response.json['usage.total_tokens']".to_owned()
            }
            Self::Location => "a path such as /busy, or a URL".to_owned(),
            Self::Refusals => "a number of refusals and a period, such as 3 refusals in 1m".to_owned(),
            Self::Percentage => "a percentage such as 80%".to_owned(),
            Self::Ceiling => "a rate such as 100/s, or a percentage such as 80% of capacity".to_owned(),
            Self::Comparison(unit) => format!("a comparison such as \"{}\"", unit.example()),
            Self::HeaderValue => "a string or an integer".to_owned(),
            Self::Json => "any value".to_owned(),
            Self::Section(section) => format!("a map with {}", backticked_list(section.names())),
            Self::OneOf(sections) => {
                format!(
                    "a map with one of {}",
                    backticked_list(sections.iter().filter_map(|section| section.names().next()))
                )
            }
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
            Self::Either(shapes) => shapes.iter().map(Self::expected).collect::<Vec<_>>().join(", or "),
        }
    }

    /// The keywords with their meanings.
    pub(crate) fn keywords(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Keyword(words) => words.to_vec(),
            Self::Either(shapes) => shapes.iter().flat_map(Self::keywords).collect(),
            _ => Vec::new(),
        }
    }
}

impl SignalUnit {
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Number | Self::Inherited => "> 4",
            Self::Percent => "> 85%",
            Self::Time => "> 100ms",
            Self::BytesPerSecond => "> 50MiB/s",
        }
    }
}

/// Formats a list: `a`, `b` and `c`, each in backticks.
pub(crate) fn backticked_list(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
