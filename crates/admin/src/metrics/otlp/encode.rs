//! Encodes metrics as OTLP messages.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::metrics::catalogue::{Instrument, InstrumentKind};
use crate::metrics::gather::{MetricFamily, MetricPoint, MetricValue, wait_bounds};

/// Time range of cumulative values, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeRange {
    since: u64,
    until: u64,
}

impl TimeRange {
    pub(super) fn new(since: SystemTime, until: SystemTime) -> Self {
        let nanos = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let saturated = |time| u64::try_from(nanos(time)).unwrap_or(u64::MAX);
        Self { since: saturated(since), until: saturated(until) }
    }
}

/// Encodes all metrics in one message.
pub(super) fn export_request(families: Vec<MetricFamily>, span: TimeRange) -> ExportMetricsServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            attribute("service.name", "sluicegate".to_owned()),
            attribute("service.version", version.to_owned()),
            attribute("service.instance.id", instance_id()),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "sluicegate".to_owned(),
        version: version.to_owned(),
        ..InstrumentationScope::default()
    };
    let metrics = families.into_iter().map(|family| encode_metric(family, span)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let metrics = ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
}

/// Identifies this process among those that push to one collector.
fn instance_id() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

fn encode_metric(family: MetricFamily, span: TimeRange) -> Metric {
    let Instrument { name, kind, unit, help } = *family.instrument;
    let points = family.points.into_iter();
    let data = match kind {
        InstrumentKind::Gauge => {
            Data::Gauge(Gauge { data_points: points.filter_map(|point| number_point(point, span)).collect() })
        }
        InstrumentKind::Counter => Data::Sum(Sum {
            data_points: points.filter_map(|point| number_point(point, span)).collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        InstrumentKind::Histogram => Data::Histogram(Histogram {
            data_points: points.filter_map(|point| histogram_point(point, span)).collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        }),
    };
    Metric {
        name: name.to_owned(),
        description: help.to_owned(),
        unit: unit.ucum().to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn number_point(point: MetricPoint, span: TimeRange) -> Option<NumberDataPoint> {
    let value = match point.value {
        // Saturates at the largest representable value.
        MetricValue::Integer(value) => Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
        MetricValue::Float(value) => Value::AsDouble(value),
        MetricValue::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        start_time_unix_nano: span.since,
        time_unix_nano: span.until,
        value: Some(value),
        attributes: attributes(point.labels),
        ..NumberDataPoint::default()
    })
}

fn histogram_point(point: MetricPoint, span: TimeRange) -> Option<HistogramDataPoint> {
    let MetricValue::Histogram(times) = point.value else { return None };
    Some(HistogramDataPoint {
        start_time_unix_nano: span.since,
        time_unix_nano: span.until,
        count: times.count(),
        sum: Some(times.sum.as_secs_f64()),
        bucket_counts: times.buckets.to_vec(),
        explicit_bounds: wait_bounds().collect(),
        attributes: attributes(point.labels),
        ..HistogramDataPoint::default()
    })
}

fn attributes(labels: Vec<(&'static str, String)>) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(key: &str, value: String) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}
