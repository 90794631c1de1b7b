//! Strict exposition parser for tests: accepts only text that every scraper accepts.

use std::collections::{BTreeMap, BTreeSet};

use super::Format;

/// Parsed exposition by metric family.
pub(crate) type ParsedExposition = BTreeMap<String, ParsedFamily>;

/// A metric family.
#[derive(Debug, Default)]
pub(crate) struct ParsedFamily {
    pub(crate) kind: String,
    pub(crate) help: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) samples: Vec<ParsedSample>,
}

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedSample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Parses a text, or returns the line and the violated rule.
pub(crate) fn parse(text: &str, format: Format) -> Result<ParsedExposition, String> {
    let body = match format {
        Format::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("missing # EOF")?,
        Format::Prometheus => text,
    };
    if !body.ends_with('\n') {
        return Err("the last line has no line break".to_owned());
    }
    let mut exposed = ParsedExposition::new();
    let mut series = BTreeSet::new();
    let mut current: Option<String> = None;
    for (index, line) in body.lines().enumerate() {
        let at = |error: &str| format!("line {}: {error}: {line}", index + 1);
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').ok_or_else(|| at("incomplete comment"))?;
            let (name, rest) = rest.split_once(' ').ok_or_else(|| at("nothing after the name"))?;
            if !is_name(name) {
                return Err(at("invalid name"));
            }
            let is_new = current.as_deref() != Some(name);
            if is_new && exposed.contains_key(name) {
                return Err(at("family is split"));
            }
            current = Some(name.to_owned());
            let family = exposed.entry(name.to_owned()).or_default();
            if !family.samples.is_empty() {
                return Err(at("described after its samples"));
            }
            let is_duplicate = match word {
                "HELP" => {
                    unescape(rest, &['\\', 'n', '"']).ok_or_else(|| at("invalid escape"))?;
                    family.help.replace(rest.to_owned()).is_some()
                }
                "TYPE" if family.help.is_none() => return Err(at("TYPE before HELP")),
                "TYPE" => !std::mem::replace(&mut family.kind, rest.to_owned()).is_empty(),
                "UNIT" if format == Format::Prometheus => return Err(at("UNIT is not allowed in this format")),
                "UNIT" if family.kind.is_empty() => return Err(at("UNIT before TYPE")),
                "UNIT" if !name.ends_with(&format!("_{rest}")) => return Err(at("the name does not end in its unit")),
                "UNIT" => family.unit.replace(rest.to_owned()).is_some(),
                _ => return Err(at("unknown comment")),
            };
            if is_duplicate {
                return Err(at("duplicate comment"));
            }
            continue;
        }
        let sample = parse_sample(line).ok_or_else(|| at("invalid sample"))?;
        let name = current.as_deref().ok_or_else(|| at("sample without a family"))?;
        let family = exposed.get_mut(name).ok_or_else(|| at("sample without a family"))?;
        if !allowed_names(name, &family.kind, format).contains(&sample.name) {
            return Err(at("sample name does not fit the type"));
        }
        if family.kind == "counter" && (sample.value.is_nan() || sample.value < 0.0) {
            return Err(at("negative counter"));
        }
        if !series.insert(format!("{} {:?}", sample.name, sample.labels)) {
            return Err(at("duplicate series"));
        }
        family.samples.push(sample);
    }
    for (name, family) in &exposed {
        if family.samples.is_empty() || family.kind.is_empty() {
            return Err(format!("{name} has no samples or no type"));
        }
        if family.kind == "histogram" {
            check_histogram(name, family)?;
        }
    }
    Ok(exposed)
}

/// Allowed sample names of a family.
fn allowed_names(family: &str, kind: &str, format: Format) -> Vec<String> {
    match (kind, format) {
        ("counter", Format::OpenMetrics) => vec![format!("{family}_total")],
        ("counter", Format::Prometheus) if family.ends_with("_total") => vec![family.to_owned()],
        ("gauge", _) if !family.ends_with("_total") => vec![family.to_owned()],
        ("histogram", _) => ["bucket", "sum", "count"].map(|suffix| format!("{family}_{suffix}")).to_vec(),
        _ => Vec::new(),
    }
}

/// Parts of a histogram with one set of labels.
#[derive(Default)]
struct HistogramParts {
    /// Upper bounds with cumulative counts.
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

fn check_histogram(name: &str, family: &ParsedFamily) -> Result<(), String> {
    let mut by_labels: BTreeMap<String, HistogramParts> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let parts = by_labels.entry(format!("{labels:?}")).or_default();
        match (sample.name.strip_prefix(name), bound) {
            (Some("_bucket"), Some(bound)) => {
                parts.buckets.push((parse_number(&bound).ok_or("invalid bound")?, sample.value));
            }
            (Some("_sum"), None) => parts.sum = Some(sample.value),
            (Some("_count"), None) => parts.count = Some(sample.value),
            _ => return Err(format!("{name}: {sample:?}")),
        }
    }
    for (labels, HistogramParts { buckets, sum, count }) in by_labels {
        let rises = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = buckets.last().copied();
        if !rises
            || last.map(|(bound, _)| bound) != Some(f64::INFINITY)
            || sum.is_none()
            || last.map(|(_, n)| n) != count
        {
            return Err(format!("{name} {labels} is not a histogram: {buckets:?} {sum:?} {count:?}"));
        }
    }
    Ok(())
}

fn parse_sample(line: &str) -> Option<ParsedSample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(within) = rest.strip_prefix('{') {
        rest = within;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let close = closing_quote(after)?;
            let value = unescape(&after[..close], &['\\', 'n', '"'])?;
            let is_new = labels.insert(label.to_owned(), value).is_none();
            if !is_new || !is_name(label) || label.contains(':') {
                return None;
            }
            rest = &after[close + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = parse_number(rest.strip_prefix(' ')?)?;
    is_name(name).then(|| ParsedSample { name: name.to_owned(), labels, value })
}

/// Position of the unescaped closing quote.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        closes.then_some(at)
    })
}

fn unescape(text: &str, known: &[char]) -> Option<String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next().filter(|next| known.contains(next))? {
                'n' => '\n',
                other => other,
            },
            other => other,
        });
    }
    Some(plain)
}

fn parse_number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        // Rust also parses words that scrapers do not accept.
        other if other.starts_with(|c: char| c.is_ascii_digit() || c == '-') => other.parse().ok(),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(fits)
}

#[test]
fn parser_is_strict() {
    let good = "# HELP a_seconds x\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\na_seconds{l=\"\\\"\\\\\\n\"} 1.5\n# EOF\n";
    let read_open = |text: &str| parse(text, Format::OpenMetrics);
    assert_eq!(read_open(good).unwrap()["a_seconds"].samples[0].labels["l"], "\"\\\n");
    for (bad, error) in [
        ("# HELP a x\n# TYPE a gauge\na 1\n", "EOF"),
        ("# TYPE a gauge\na 1\n# EOF\n", "TYPE before HELP"),
        ("# HELP a x\n# TYPE a counter\na 1\n# EOF\n", "sample name does not fit the type"),
        ("# HELP a x\n# TYPE a counter\na_total -1\n# EOF\n", "negative counter"),
        ("# HELP a x\n# TYPE a gauge\na 1\na 1\n# EOF\n", "duplicate series"),
        ("# HELP a x\n# TYPE a gauge\na{b=\"1\",b=\"2\"} 1\n# EOF\n", "invalid sample"),
        ("# HELP a x\n# TYPE a gauge\na{b=\"\\x\"} 1\n# EOF\n", "invalid sample"),
        ("# HELP a x\n# TYPE a gauge\na one\n# EOF\n", "invalid sample"),
        ("# HELP a x\n# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n", "its unit"),
        ("# HELP a x\n# TYPE a gauge\na 1\n# HELP b x\n# TYPE b gauge\nb 1\n# HELP a x\n# EOF\n", "family is split"),
        ("# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"1.0\"} 1\n# EOF\n", "not a histogram"),
        (
            "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 1\n# EOF\n",
            "not a histogram",
        ),
    ] {
        let message = read_open(bad).unwrap_err();
        assert!(message.contains(error), "{message}");
    }
}
