//! A strict reader of what is exposed: what it takes, every scraper does.

use std::collections::{BTreeMap, BTreeSet};

use super::Format;

/// Everything that was exposed, by family.
pub(crate) type Exposed = BTreeMap<String, Exposition>;

/// A family.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) kind: String,
    pub(crate) help: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) samples: Vec<Sample>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Reads a text, or says in which line it breaks which rule.
pub(crate) fn read(text: &str, format: Format) -> Result<Exposed, String> {
    let body = match format {
        Format::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("it does not end in # EOF")?,
        Format::Prometheus => text,
    };
    if !body.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut exposed = Exposed::new();
    let mut series = BTreeSet::new();
    let mut current: Option<String> = None;
    for (index, line) in body.lines().enumerate() {
        let at = |fault: &str| format!("line {}: {fault}: {line}", index + 1);
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').ok_or_else(|| at("a bare comment"))?;
            let (name, rest) = rest.split_once(' ').ok_or_else(|| at("nothing behind the name"))?;
            if !is_name(name) {
                return Err(at("no name"));
            }
            let is_new = current.as_deref() != Some(name);
            if is_new && exposed.contains_key(name) {
                return Err(at("a family in two pieces"));
            }
            current = Some(name.to_owned());
            let family = exposed.entry(name.to_owned()).or_default();
            if !family.samples.is_empty() {
                return Err(at("described after its values"));
            }
            let said_before = match word {
                "HELP" => {
                    unescaped(rest, &['\\', 'n', '"']).ok_or_else(|| at("a bad escape"))?;
                    family.help.replace(rest.to_owned()).is_some()
                }
                "TYPE" if family.help.is_none() => return Err(at("the type before the help")),
                "TYPE" => !std::mem::replace(&mut family.kind, rest.to_owned()).is_empty(),
                "UNIT" if format == Format::Prometheus => return Err(at("units are not told here")),
                "UNIT" if family.kind.is_empty() => return Err(at("the unit before the type")),
                "UNIT" if !name.ends_with(&format!("_{rest}")) => return Err(at("the name does not end in its unit")),
                "UNIT" => family.unit.replace(rest.to_owned()).is_some(),
                _ => return Err(at("an unknown comment")),
            };
            if said_before {
                return Err(at("said twice"));
            }
            continue;
        }
        let sample = sample(line).ok_or_else(|| at("no value"))?;
        let name = current.as_deref().ok_or_else(|| at("a value of no family"))?;
        let family = exposed.get_mut(name).ok_or_else(|| at("a value of no family"))?;
        if !names(name, &family.kind, format).contains(&sample.name) {
            return Err(at("a name that its type does not have"));
        }
        if family.kind == "counter" && (sample.value.is_nan() || sample.value < 0.0) {
            return Err(at("a counter below zero"));
        }
        if !series.insert(format!("{} {:?}", sample.name, sample.labels)) {
            return Err(at("there twice"));
        }
        family.samples.push(sample);
    }
    for (name, family) in &exposed {
        if family.samples.is_empty() || family.kind.is_empty() {
            return Err(format!("{name} has no values or no type"));
        }
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(exposed)
}

/// The names that the values of a family may have.
fn names(family: &str, kind: &str, format: Format) -> Vec<String> {
    match (kind, format) {
        ("counter", Format::OpenMetrics) => vec![format!("{family}_total")],
        ("counter", Format::Prometheus) if family.ends_with("_total") => vec![family.to_owned()],
        ("gauge", _) if !family.ends_with("_total") => vec![family.to_owned()],
        ("histogram", _) => ["bucket", "sum", "count"].map(|suffix| format!("{family}_{suffix}")).to_vec(),
        _ => Vec::new(),
    }
}

/// What a histogram of one set of labels is made of.
#[derive(Default)]
struct Parts {
    /// Bounds, and how many are at most there.
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

fn histogram(name: &str, family: &Exposition) -> Result<(), String> {
    let mut by_labels: BTreeMap<String, Parts> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let of = by_labels.entry(format!("{labels:?}")).or_default();
        match (sample.name.strip_prefix(name), bound) {
            (Some("_bucket"), Some(bound)) => of.buckets.push((number(&bound).ok_or("a bad bound")?, sample.value)),
            (Some("_sum"), None) => of.sum = Some(sample.value),
            (Some("_count"), None) => of.count = Some(sample.value),
            _ => return Err(format!("{name}: {sample:?}")),
        }
    }
    for (labels, Parts { buckets, sum, count }) in by_labels {
        let rises = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = buckets.last().copied();
        if !rises
            || last.map(|(bound, _)| bound) != Some(f64::INFINITY)
            || sum.is_none()
            || last.map(|(_, n)| n) != count
        {
            return Err(format!("{name} {labels} is no histogram: {buckets:?} {sum:?} {count:?}"));
        }
    }
    Ok(())
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(within) = rest.strip_prefix('{') {
        rest = within;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let close = closing(after)?;
            let value = unescaped(&after[..close], &['\\', 'n', '"'])?;
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
    let value = number(rest.strip_prefix(' ')?)?;
    is_name(name).then(|| Sample { name: name.to_owned(), labels, value })
}

/// Where the quote that is not escaped is.
fn closing(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        closes.then_some(at)
    })
}

fn unescaped(text: &str, known: &[char]) -> Option<String> {
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

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        // Rust reads words that scrapers do not.
        other if other.starts_with(|c: char| c.is_ascii_digit() || c == '-') => other.parse().ok(),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(fits)
}

#[test]
fn the_reader_is_strict() {
    let good = "# HELP a_seconds x\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\na_seconds{l=\"\\\"\\\\\\n\"} 1.5\n# EOF\n";
    let read_open = |text: &str| read(text, Format::OpenMetrics);
    assert_eq!(read_open(good).unwrap()["a_seconds"].samples[0].labels["l"], "\"\\\n");
    for (bad, why) in [
        ("# HELP a x\n# TYPE a gauge\na 1\n", "EOF"),
        ("# TYPE a gauge\na 1\n# EOF\n", "the type before the help"),
        ("# HELP a x\n# TYPE a counter\na 1\n# EOF\n", "a name that its type does not have"),
        ("# HELP a x\n# TYPE a counter\na_total -1\n# EOF\n", "below zero"),
        ("# HELP a x\n# TYPE a gauge\na 1\na 1\n# EOF\n", "there twice"),
        ("# HELP a x\n# TYPE a gauge\na{b=\"1\",b=\"2\"} 1\n# EOF\n", "no value"),
        ("# HELP a x\n# TYPE a gauge\na{b=\"\\x\"} 1\n# EOF\n", "no value"),
        ("# HELP a x\n# TYPE a gauge\na one\n# EOF\n", "no value"),
        ("# HELP a x\n# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n", "its unit"),
        ("# HELP a x\n# TYPE a gauge\na 1\n# HELP b x\n# TYPE b gauge\nb 1\n# HELP a x\n# EOF\n", "two pieces"),
        ("# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"1.0\"} 1\n# EOF\n", "no histogram"),
        (
            "# HELP a x\n# TYPE a histogram\na_sum 1\na_count 1\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 1\n# EOF\n",
            "no histogram",
        ),
    ] {
        let told = read_open(bad).unwrap_err();
        assert!(told.contains(why), "{told}");
    }
}
