//! Overload protection of a rule, as data.
//!
//! A rule may have one of three protections, next to its limits or instead of them. Each applies to all requests
//! of the rule together, regardless of the key: the process is overloaded, not one of its clients.
//!
//! | protection | limits | active |
//! |---|---|---|
//! | [`Ceiling`] | the rate | while its conditions hold |
//! | [`Auto`] | requests in flight, self-tuning | always |
//! | [`CpuGuard`] | the rate, computed from the CPU cost of a request | while the CPU is busy |
//!
//! The rule's [priority](super::Priority) classes determine the order of admission. The engine only provides the
//! [gates](crate::overload); the limits are computed and set by the `sluicegate-adaptive` crate.

use std::fmt;
use std::time::Duration;

use crate::limit::parse::{HumanBytes, HumanDuration};

/// Overload protection of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Adaptive {
    /// Rate limit that is active while its conditions hold.
    Ceiling(Ceiling),
    /// Self-tuning limit of requests in flight.
    Auto(Auto),
    /// Rate limit that keeps CPU usage at a target.
    Cpu(CpuGuard),
}

/// Rate limit that is active while its conditions hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// Conditions on signals.
    pub conditions: Vec<Condition>,
    /// Number of conditions that must hold.
    pub quorum: Quorum,
    /// The rate limit while active.
    pub cap: Cap,
    /// Time the conditions must hold before the ceiling becomes active.
    pub enter_after: Duration,
    /// Time the conditions must be over, by their exit values, before recovery starts.
    pub exit_after: Duration,
    /// Minimum time the ceiling stays active.
    pub hold: Duration,
    /// Growth of the limit per second during recovery, as a share, until no request is refused any more.
    pub recovery: f64,
}

impl Ceiling {
    /// Creates a ceiling that is entered after 750 ms, left after 2 s and recovers by a tenth per second.
    pub fn new(conditions: impl Into<Vec<Condition>>, cap: Cap) -> Self {
        Self {
            conditions: conditions.into(),
            quorum: Quorum::All,
            cap,
            enter_after: Duration::from_millis(750),
            exit_after: Duration::from_secs(2),
            hold: Duration::from_secs(2),
            recovery: 0.1,
        }
    }
}

/// Number of conditions that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Quorum {
    /// All conditions.
    #[default]
    All,
    /// At least one condition.
    Any,
}

/// Rate limit of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cap {
    /// Fixed rate: at most `count` in any window.
    Rate {
        /// The count.
        count: u64,
        /// The window.
        window: Duration,
    },
    /// Share of the highest recent throughput.
    ShareOfCapacity(f64),
}

/// Comparison of a signal with a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// The signal.
    pub signal: Signal,
    /// Direction of `enter` that means overload.
    pub comparison: Comparison,
    /// Threshold at which the overload starts, in the signal's [unit](Signal::unit).
    pub enter: f64,
    /// Threshold at which the overload ends: by default four fifths of `enter`. Holding requests back also
    /// shortens response times, so this must differ from `enter`.
    pub exit: f64,
    /// Time this condition must hold; `None`: the ceiling's `enter_after`.
    pub min_duration: Option<Duration>,
}

impl Condition {
    /// Creates a condition with the default exit value.
    pub fn new(signal: Signal, comparison: Comparison, enter: f64) -> Self {
        let exit = match comparison {
            Comparison::Above | Comparison::AtLeast => enter * 0.8,
            Comparison::Below | Comparison::AtMost => enter * 1.25,
        };
        Self { signal, comparison, enter, exit, min_duration: None }
    }
}

/// Comparison operator of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Comparison {
    /// True if the comparison of `reading` with `value` holds.
    pub fn holds(self, reading: f64, value: f64) -> bool {
        match self {
            Self::Above => reading > value,
            Self::AtLeast => reading >= value,
            Self::Below => reading < value,
            Self::AtMost => reading <= value,
        }
    }

    /// The operator's symbol.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}

/// Measured signals of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Signal {
    /// Load average of the host over one minute.
    Load1,
    /// Load average of the host over five minutes.
    Load5,
    /// One-minute load average per core available to this process.
    LoadPerCore,
    /// CPU usage, as a share of what this process may use: of its cgroup if there is one.
    Cpu,
    /// CPU usage of the whole host.
    HostCpu,
    /// CPU pressure: share of time in which tasks waited for a CPU.
    CpuPressure,
    /// Share of scheduling periods in which the cgroup was throttled.
    CpuThrottled,
    /// Memory usage, as a share of what this process may use.
    Memory,
    /// Average response time of the rule's requests.
    AverageResponseTime,
    /// Median response time of the rule's requests.
    MedianResponseTime,
    /// 90th percentile of the response time.
    ResponseTime90,
    /// 99th percentile of the response time.
    ResponseTime99,
    /// The rule's requests in flight.
    InFlight,
    /// The rule's request rate per second, including refused requests.
    RequestsPerSecond,
    /// Open connections.
    Connections,
    /// Network traffic in bytes per second, in and out, without loopback.
    Traffic,
}

/// Unit of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalUnit {
    /// A plain number.
    Number,
    /// A share, from 0 to 1.
    Share,
    /// Seconds.
    Seconds,
    /// Bytes per second.
    BytesPerSecond,
}

impl Signal {
    /// All signals, in display order.
    pub const ALL: [Self; 16] = [
        Self::Load1,
        Self::Load5,
        Self::LoadPerCore,
        Self::Cpu,
        Self::HostCpu,
        Self::CpuPressure,
        Self::CpuThrottled,
        Self::Memory,
        Self::AverageResponseTime,
        Self::MedianResponseTime,
        Self::ResponseTime90,
        Self::ResponseTime99,
        Self::InFlight,
        Self::RequestsPerSecond,
        Self::Connections,
        Self::Traffic,
    ];

    /// Name in rule files, metrics and readings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load1 => "load1",
            Self::Load5 => "load5",
            Self::LoadPerCore => "load_per_core",
            Self::Cpu => "cpu",
            Self::HostCpu => "host_cpu",
            Self::CpuPressure => "cpu_pressure",
            Self::CpuThrottled => "cpu_throttled",
            Self::Memory => "memory",
            Self::AverageResponseTime => "avg_rt",
            Self::MedianResponseTime => "p50_rt",
            Self::ResponseTime90 => "p90_rt",
            Self::ResponseTime99 => "p99_rt",
            Self::InFlight => "in_flight",
            Self::RequestsPerSecond => "qps",
            Self::Connections => "connections",
            Self::Traffic => "traffic",
        }
    }

    /// Unit of the value.
    pub const fn unit(self) -> SignalUnit {
        match self {
            Self::Load1 | Self::Load5 | Self::LoadPerCore => SignalUnit::Number,
            Self::InFlight | Self::RequestsPerSecond | Self::Connections => SignalUnit::Number,
            Self::Cpu | Self::HostCpu | Self::CpuPressure | Self::CpuThrottled | Self::Memory => SignalUnit::Share,
            Self::AverageResponseTime | Self::MedianResponseTime | Self::ResponseTime90 | Self::ResponseTime99 => {
                SignalUnit::Seconds
            }
            Self::Traffic => SignalUnit::BytesPerSecond,
        }
    }

    /// True if it is measured per rule and not per process or host.
    pub const fn is_per_rule(self) -> bool {
        matches!(
            self,
            Self::AverageResponseTime
                | Self::MedianResponseTime
                | Self::ResponseTime90
                | Self::ResponseTime99
                | Self::InFlight
                | Self::RequestsPerSecond
        )
    }
}

/// Self-tuning limit of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// Minimum limit.
    pub min: u32,
    /// Maximum limit.
    pub max: u32,
    /// Initial limit.
    pub start: u32,
    /// Response time that always counts as overload; `None`: no such bound.
    pub max_rt: Option<Duration>,
    /// Maximum wait in the gate's queue; `None`: derived from the response time.
    pub max_wait: Option<Duration>,
    /// Maximum number of requests in the gate's queue.
    pub max_waiting: u32,
}

impl Default for Auto {
    fn default() -> Self {
        Self { min: 2, max: 10_000, start: 20, max_rt: None, max_wait: None, max_waiting: 1_000 }
    }
}

/// Rate limit that keeps CPU usage at a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuGuard {
    /// Target share of the CPU.
    pub target: f64,
    /// Active only while CPU usage exceeds this share, tasks wait for a CPU, or the cgroup is throttled.
    pub threshold: f64,
}

impl Default for CpuGuard {
    fn default() -> Self {
        Self { target: 0.8, threshold: 0.85 }
    }
}

impl Signal {
    /// Formats a value with its unit: `5.2`, `87%`, `130ms`, `12.5MB/s`.
    pub fn format(self, value: f64) -> String {
        self.unit().format(value)
    }
}

impl SignalUnit {
    /// Formats a value with its unit and about three digits: `5.2`, `87%`, `130ms`, `12.5MB/s`.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Number => format_number(value),
            Self::Share => format!("{}%", format_number(value * 100.0)),
            Self::Seconds if value.abs() < 1.0 => format!("{}ms", format_number(value * 1e3)),
            Self::Seconds => format!("{}s", format_number(value)),
            Self::BytesPerSecond => {
                let scales = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s")];
                let scale = scales.into_iter().find(|(scale, _)| value.abs() >= *scale);
                let (scale, unit) = scale.unwrap_or((1.0, "B/s"));
                format!("{}{unit}", format_number(value / scale))
            }
        }
    }
}

/// Formats a number with about three digits: `0.05`, `4`, `5.2`, `1234`.
fn format_number(number: f64) -> String {
    let decimals = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 1.0 => 1,
        _ => 2,
    };
    let written = format!("{number:.decimals$}");
    let short = if decimals > 0 { written.trim_end_matches('0').trim_end_matches('.') } else { &written };
    if short.is_empty() || short == "-0" { "0".to_owned() } else { short.to_owned() }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signal, comparison, enter, .. } = self;
        write!(f, "{} {} ", signal.name(), comparison.symbol())?;
        match signal.unit() {
            // As configured; it need not be a round number.
            SignalUnit::BytesPerSecond => write!(f, "{}/s", HumanBytes(enter.max(0.0) as u64)),
            unit => f.write_str(&unit.format(*enter)),
        }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { count, window } => write!(f, "{count}/{}", HumanDuration(*window)),
            Self::ShareOfCapacity(share) => write!(f, "{} of capacity", SignalUnit::Share.format(*share)),
        }
    }
}

impl fmt::Display for Adaptive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ceiling(Ceiling { conditions, quorum, cap, .. }) => {
                write!(f, "{cap} while ")?;
                let between = match quorum {
                    Quorum::All => " and ",
                    Quorum::Any => " or ",
                };
                for (index, condition) in conditions.iter().enumerate() {
                    write!(f, "{}{condition}", if index > 0 { between } else { "" })?;
                }
                Ok(())
            }
            Self::Auto(Auto { min, max, .. }) => {
                write!(f, "self-tuned, {min} to {max} in flight")
            }
            Self::Cpu(CpuGuard { target, threshold }) => {
                write!(
                    f,
                    "{} of the CPU while cpu > {}",
                    SignalUnit::Share.format(*target),
                    SignalUnit::Share.format(*threshold)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_formatted() {
        for (signal, of, expected) in [
            (Signal::Load5, 5.2, "5.2"),
            (Signal::Load5, 4.0, "4"),
            (Signal::Load1, 0.0, "0"),
            (Signal::LoadPerCore, 0.05, "0.05"),
            (Signal::InFlight, 71.0, "71"),
            (Signal::InFlight, 100.0, "100"),
            (Signal::RequestsPerSecond, 1_234.5, "1234"),
            (Signal::Cpu, 0.873, "87.3%"),
            (Signal::Cpu, 1.0, "100%"),
            (Signal::AverageResponseTime, 0.13, "130ms"),
            (Signal::AverageResponseTime, 0.000_4, "0.4ms"),
            (Signal::ResponseTime99, 1.5, "1.5s"),
            (Signal::Traffic, 12_500_000.0, "12.5MB/s"),
            (Signal::Traffic, 12.0, "12B/s"),
            (Signal::Load1, -0.001, "0"),
            (Signal::Load1, f64::NAN, "NaN"),
        ] {
            assert_eq!(signal.format(of), expected);
        }
    }

    #[test]
    fn protections_are_formatted() {
        let conditions = [
            Condition::new(Signal::Load5, Comparison::Above, 4.0),
            Condition::new(Signal::AverageResponseTime, Comparison::Above, 0.1),
        ];
        let cap = Cap::Rate { count: 100, window: Duration::from_secs(1) };
        let ceiling = Adaptive::Ceiling(Ceiling::new(conditions, cap));
        assert_eq!(ceiling.to_string(), "100/1s while load5 > 4 and avg_rt > 100ms");
        assert_eq!(Adaptive::Cpu(CpuGuard::default()).to_string(), "80% of the CPU while cpu > 85%");
    }
}
