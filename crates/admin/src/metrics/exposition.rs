//! Metrics as Prometheus and whoever speaks its language read them.

use std::fmt;

use http::{HeaderMap, header};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::instrument::{Instrument, Kind};
use super::reading::{Family, Value, bounds};

/// A way of writing metrics down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// What came of the older text.
    OpenMetrics,
    /// The older text, which everybody reads.
    Prometheus,
}

impl Format {
    /// The one that is asked for.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let mut accepted = headers.get_all(header::ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
        match accepted.any(|line| line.contains("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes metrics down.
pub(super) fn text(families: Vec<Family>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    match format {
        Format::OpenMetrics => text,
        Format::Prometheus => in_the_older_way(&text),
    }
}

/// The same lines, as they were before OpenMetrics: counters are described under the name that their values have,
/// units are not told, and there is no end but the end.
fn in_the_older_way(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = match line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            // The type comes next.
            Some((name, help)) if lines.peek().is_some_and(|next| next.ends_with(" counter")) => {
                format!("# HELP {name}_total {help}")
            }
            _ if line.starts_with("# UNIT ") || line == "# EOF" => continue,
            _ => match line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter")) {
                Some(name) => format!("# TYPE {name}_total counter"),
                None => line.to_owned(),
            },
        };
        older.push_str(&line);
        older.push('\n');
    }
    older
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { instrument, points } in &self.0 {
            let Instrument { name, kind, unit, help } = *instrument;
            let name = name.replace('.', "_");
            let unit = unit.suffix().map(|unit| Unit::Other(unit.to_owned()));
            let mut encoder = encoder.encode_descriptor(&name, help, unit.as_ref(), type_of(*kind))?;
            for point in points {
                if point.labels.is_empty() {
                    write(&mut encoder, *kind, point.value)?;
                } else {
                    write(&mut encoder.encode_family(&point.labels)?, *kind, point.value)?;
                }
            }
        }
        Ok(())
    }
}

const fn type_of(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    }
}

fn write(encoder: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
        (Kind::Counter, Value::Real(value)) => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
        (_, Value::Whole(value)) => encoder.encode_gauge(&value),
        (_, Value::Real(value)) => encoder.encode_gauge(&value),
        (_, Value::Times(times)) => {
            let bounds = bounds().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
            encoder.encode_histogram::<NoLabelSet>(times.sum.as_secs_f64(), times.count(), &buckets, None)
        }
    }
}
