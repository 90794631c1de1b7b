//! The rule file's grammar, declared once.
//!
//! The tables of [`tables`] say which sections and fields there are, what each takes, what it is for
//! and what it is when left out. The reader asks them what to accept, and so unknown words are told
//! from known ones; the [JSON schema](schema()) for editors and the [reference](reference()) for
//! people are made from the same tables. None of the three can know a field that another does not.
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

/// A map with known fields.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name in the reference, and in messages after "in".
    pub(crate) name: &'static str,
    /// What it is for, in one line.
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A known field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// What it is for, in one line.
    pub(crate) doc: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    /// A value as the file would have it.
    pub(crate) example: &'static str,
}

/// Whether a field may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// May be left out; this says what holds then.
    Default(&'static str),
}

/// What a field takes.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Any text.
    Text,
    /// Yes or no.
    Truth,
    /// A rule's name.
    Name,
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// `500ms`.
    Duration,
    /// `2MiB`.
    Size,
    /// `300/1m`.
    Rate,
    /// `2MiB/s`.
    SizeRate,
    /// One of these words, each with what it means.
    Word(&'static [(&'static str, &'static str)]),
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
    /// A path as it stands, without parameters.
    Path,
    /// A method of a request.
    Method,
    /// A host, or all below one.
    HostPattern,
    /// A host, with or without port.
    Host,
    /// A header's name.
    HeaderName,
    /// Where an attribute comes from.
    Place,
    /// Where the real cost is found.
    Actual,
    /// Where a client is sent.
    Location,
    /// `3 refusals in 1m`.
    Refusals,
    /// `80%`.
    Share,
    /// `100/s` or `80% of capacity`.
    Ceiling,
    /// `> 100ms`, with a value of this unit.
    Comparison(Unit),
    /// A header's value: text or a whole number.
    HeaderValue,
    /// Anything, taken over as JSON.
    Json,
    /// A map with known fields.
    Section(&'static Section),
    /// A map whose first field says which of these it is.
    OneOf(&'static [&'static Section]),
    /// A list of at least one.
    List(&'static Shape),
    /// A map with names chosen by the user.
    Map(&'static Shape),
    /// Any of these.
    Either(&'static [Shape]),
}

/// What a signal is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A plain number.
    Number,
    /// Hundredths of the whole, with or without `%`.
    Percent,
    /// A duration.
    Time,
    /// Bytes per second.
    BytesPerSecond,
    /// Whatever the signal is measured in that it belongs to.
    OfSignal,
}

impl Section {
    /// The field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Shape {
    /// What a message says is wanted here: `a duration such as 500ms`.
    pub(crate) fn wanted(&self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Truth => "`true` or `false`".to_owned(),
            Self::Name => "a name".to_owned(),
            Self::Count(least, u64::MAX) => format!("a whole number, {least} or more"),
            Self::Count(least, most) => format!("a whole number from {least} to {most}"),
            Self::Duration => "a duration such as 500ms or 1m".to_owned(),
            Self::Size => "a size such as 2MiB".to_owned(),
            Self::Rate => "a rate such as 300/1m or 10/s".to_owned(),
            Self::SizeRate => "a rate of bytes such as 2MiB/s".to_owned(),
            Self::Word(words) => match words {
                [(word, _)] => format!("`{word}`"),
                _ => format!("one of {}", listed(words.iter().map(|(word, _)| *word))),
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
            Self::HeaderName => "the name of a header such as x-real-ip".to_owned(),
            Self::Place => "a place such as header['x-api-key'] or jwt['sub']".to_owned(),
            Self::Actual => "a source such as response.bytes or response.json['usage.total_tokens']".to_owned(),
            Self::Location => "a path or URL to send clients to".to_owned(),
            Self::Refusals => "a text such as 3 refusals in 1m".to_owned(),
            Self::Share => "a share such as 80%".to_owned(),
            Self::Ceiling => "a rate such as 100/s, or a share such as 80% of capacity".to_owned(),
            Self::Comparison(unit) => format!("a comparison such as \"{}\"", unit.example()),
            Self::HeaderValue => "a text".to_owned(),
            Self::Json => "any value".to_owned(),
            Self::Section(section) => format!("a map with {}", listed(section.names())),
            Self::OneOf(sections) => {
                format!("a map with one of {}", listed(sections.iter().filter_map(|section| section.names().next())))
            }
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
            Self::Either(shapes) => shapes.iter().map(Self::wanted).collect::<Vec<_>>().join(", or "),
        }
    }

    /// The words it knows, each with what it means.
    pub(crate) fn words(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Word(words) => words.to_vec(),
            Self::Either(shapes) => shapes.iter().flat_map(Self::words).collect(),
            _ => Vec::new(),
        }
    }
}

impl Unit {
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Number | Self::OfSignal => "> 4",
            Self::Percent => "> 85%",
            Self::Time => "> 100ms",
            Self::BytesPerSecond => "> 50MiB/s",
        }
    }
}

/// `a`, `b` and `c`, each in backticks.
pub(crate) fn listed(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
