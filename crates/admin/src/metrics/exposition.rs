//! OpenMetrics and Prometheus text exposition.

use std::fmt;

use http::{HeaderMap, header};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::catalogue::{Instrument, InstrumentKind};
use super::gather::{MetricFamily, MetricValue, wait_bounds};

/// Exposition format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, which every scraper reads.
    Prometheus,
}

impl Format {
    /// Selects the format by the `Accept` header.
    pub(crate) fn from_accept(headers: &HeaderMap) -> Self {
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

/// Encodes metrics as text.
pub(super) fn text(families: Vec<MetricFamily>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(FamilyCollector(families)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    match format {
        Format::OpenMetrics => text,
        Format::Prometheus => to_prometheus_text(&text),
    }
}

/// Converts OpenMetrics to the Prometheus text format: counters are described under the name of their
/// samples, and there are no units and no EOF line.
fn to_prometheus_text(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = match line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            // The TYPE line follows.
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
struct FamilyCollector(Vec<MetricFamily>);

impl Collector for FamilyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for MetricFamily { instrument, points } in &self.0 {
            let Instrument { name, kind, unit, help } = *instrument;
            let name = name.replace('.', "_");
            let unit = unit.suffix().map(|unit| Unit::Other(unit.to_owned()));
            let mut encoder = encoder.encode_descriptor(&name, help, unit.as_ref(), metric_type(*kind))?;
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

const fn metric_type(kind: InstrumentKind) -> MetricType {
    match kind {
        InstrumentKind::Counter => MetricType::Counter,
        InstrumentKind::Gauge => MetricType::Gauge,
        InstrumentKind::Histogram => MetricType::Histogram,
    }
}

fn write(encoder: &mut MetricEncoder<'_>, kind: InstrumentKind, value: MetricValue) -> fmt::Result {
    match (kind, value) {
        (InstrumentKind::Counter, MetricValue::Integer(value)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }
        (InstrumentKind::Counter, MetricValue::Float(value)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }
        (_, MetricValue::Integer(value)) => encoder.encode_gauge(&value),
        (_, MetricValue::Float(value)) => encoder.encode_gauge(&value),
        (_, MetricValue::Histogram(times)) => {
            let bounds = wait_bounds().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
            encoder.encode_histogram::<NoLabelSet>(times.sum.as_secs_f64(), times.count(), &buckets, None)
        }
    }
}
