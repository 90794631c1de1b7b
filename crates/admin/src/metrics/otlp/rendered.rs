//! Readings as a message.

use std::fs;
use std::time::SystemTime;

use super::message::{
    CUMULATIVE, Data, ExportMetricsServiceRequest, Gauge, Histogram, HistogramDataPoint, InstrumentationScope,
    KeyValue, Metric, Number, NumberDataPoint, Resource, ResourceMetrics, ScopeMetrics, Sum,
};
use crate::metrics::instrument::{Instrument, Kind};
use crate::metrics::reading::{Family, Point, Value, bounds};
use crate::moment::Moment;

/// Between which moments totals were counted, in nanoseconds since the beginning of 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    since: u64,
    until: u64,
}

impl Span {
    pub(super) fn new(since: SystemTime, until: SystemTime) -> Self {
        Self { since: Moment::from(since).nanos(), until: Moment::from(until).nanos() }
    }
}

/// All of them in one message.
pub(super) fn request(families: Vec<Family>, span: Span) -> ExportMetricsServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            KeyValue::text("service.name", "sluicegate"),
            KeyValue::text("service.version", version),
            KeyValue::text("service.instance.id", &instance()),
        ],
    };
    let scope = InstrumentationScope { name: "sluicegate".to_owned(), version: version.to_owned() };
    let metrics = families.into_iter().map(|family| metric(family, span)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
    ExportMetricsServiceRequest { resource_metrics: vec![ResourceMetrics { resource: Some(resource), scope_metrics }] }
}

/// Which process this is among those that push to one collector.
fn instance() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

fn metric(family: Family, span: Span) -> Metric {
    let Instrument { name, kind, unit, help } = *family.instrument;
    let points = family.points.into_iter();
    let data = match kind {
        Kind::Gauge => Data::Gauge(Gauge { data_points: points.filter_map(|point| number(point, span)).collect() }),
        Kind::Counter => Data::Sum(Sum {
            data_points: points.filter_map(|point| number(point, span)).collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: points.filter_map(|point| times(point, span)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    Metric { name: name.to_owned(), description: help.to_owned(), unit: unit.ucum().to_owned(), data: Some(data) }
}

fn number(point: Point, span: Span) -> Option<NumberDataPoint> {
    let value = match point.value {
        // Beyond what can be told, as near as can be.
        Value::Whole(value) => Number::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
        Value::Real(value) => Number::AsDouble(value),
        Value::Times(_) => return None,
    };
    Some(NumberDataPoint {
        start_time_unix_nano: span.since,
        time_unix_nano: span.until,
        value: Some(value),
        attributes: attributes(point.labels),
    })
}

fn times(point: Point, span: Span) -> Option<HistogramDataPoint> {
    let Value::Times(times) = point.value else { return None };
    Some(HistogramDataPoint {
        start_time_unix_nano: span.since,
        time_unix_nano: span.until,
        count: times.count(),
        sum: Some(times.sum.as_secs_f64()),
        bucket_counts: times.buckets.to_vec(),
        explicit_bounds: bounds().collect(),
        attributes: attributes(point.labels),
    })
}

fn attributes(labels: Vec<(&'static str, String)>) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| KeyValue::text(name, &value)).collect()
}
