//! Protection that moves with the strain on a process, as data.
//!
//! A rule may have, besides its limits or instead of them, one of three protections. Each holds for all requests of
//! the rule together, whatever its key: it is the process that is under strain, not one of its clients.
//!
//! | protection | acts by | while |
//! |---|---|---|
//! | [`Ceiling`] | a rate | the conditions hold |
//! | [`Auto`] | how many may be inside at once, found by itself | always |
//! | [`CpuGuard`] | a rate, worked out from what a request costs | the CPU is busy |
//!
//! The rule's [priority](super::Priority) classes say who goes first. How the numbers are worked out is not the
//! engine's business: it keeps the [gates](crate::gate) that somebody else turns.

use std::fmt;
use std::time::Duration;

use crate::limit::parse::{Bytes, Span};

/// How a rule's requests are held back under strain.
#[derive(Clone, Debug, PartialEq)]
pub enum Adaptive {
    /// A rate that holds while certain signals say so.
    Ceiling(Ceiling),
    /// A limit of requests inside at once that finds its own value.
    Auto(Auto),
    /// A rate that keeps the CPU from being used up.
    Cpu(CpuGuard),
}

/// A rate that holds while certain signals say so.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// What is looked at.
    pub conditions: Vec<Condition>,
    /// How many of them must hold.
    pub need: Need,
    /// What holds then.
    pub most: Most,
    /// How long the conditions must have held before it holds.
    pub enter_after: Duration,
    /// How long they must have stopped holding, by their exit values, before it is raised again.
    pub exit_after: Duration,
    /// How long it holds at least.
    pub hold: Duration,
    /// By which share it grows per second afterwards, until nobody is refused any more.
    pub recovery: f64,
}

impl Ceiling {
    /// A ceiling of this height, entered after 750 ms, left after 2 s and recovering by a tenth per second.
    pub fn new(conditions: impl Into<Vec<Condition>>, most: Most) -> Self {
        Self {
            conditions: conditions.into(),
            need: Need::All,
            most,
            enter_after: Duration::from_millis(750),
            exit_after: Duration::from_secs(2),
            hold: Duration::from_secs(2),
            recovery: 0.1,
        }
    }
}

/// How many conditions must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Need {
    /// All of them together.
    #[default]
    All,
    /// One of them.
    Any,
}

/// How high a ceiling is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Most {
    /// So many requests in any span of the window.
    Rate {
        /// How many.
        count: u64,
        /// In which time.
        window: Duration,
    },
    /// A share of the most that has been answered per second lately.
    ShareOfCapacity(f64),
}

/// A signal compared with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// What is measured.
    pub signal: Signal,
    /// On which side of `enter` it means strain.
    pub comparison: Comparison,
    /// From which value on it means strain, in the signal's own [unit](Signal::unit).
    pub enter: f64,
    /// Back beyond which value the strain is over: four fifths of `enter` unless somebody says otherwise. What holds
    /// back requests also makes their times shorter, so this must not be the same value.
    pub exit: f64,
    /// How long this condition must hold by itself; `None`: as long as the ceiling says for all.
    pub lasting: Option<Duration>,
}

impl Condition {
    /// A condition with the usual exit value.
    pub fn new(signal: Signal, comparison: Comparison, enter: f64) -> Self {
        let exit = match comparison {
            Comparison::Above | Comparison::AtLeast => enter * 0.8,
            Comparison::Below | Comparison::AtMost => enter * 1.25,
        };
        Self { signal, comparison, enter, exit, lasting: None }
    }
}

/// How a signal is compared with a value.
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
    /// Whether a reading stands on this side of a value.
    pub fn holds(self, reading: f64, value: f64) -> bool {
        match self {
            Self::Above => reading > value,
            Self::AtLeast => reading >= value,
            Self::Below => reading < value,
            Self::AtMost => reading <= value,
        }
    }

    /// As it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}

/// What can be measured of a process under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Signal {
    /// The machine's load over one minute.
    Load1,
    /// The machine's load over five minutes.
    Load5,
    /// The load over one minute, divided by the cores this process may use.
    LoadPerCore,
    /// CPU time used, of what this process may use: of its control group where there is one.
    Cpu,
    /// CPU time used, of the whole machine.
    HostCpu,
    /// Time in which work waited for a CPU.
    CpuPressure,
    /// Scheduling periods in which the control group ran out of its quota.
    CpuThrottled,
    /// Memory used, of what this process may use.
    Memory,
    /// The average response time of the rule's requests.
    AverageResponseTime,
    /// The response time that half of the rule's requests stay within.
    MedianResponseTime,
    /// The response time that nine in ten stay within.
    ResponseTime90,
    /// The response time that 99 in 100 stay within.
    ResponseTime99,
    /// The rule's requests that are being served.
    InFlight,
    /// The rule's requests that arrive per second, refused ones included.
    RequestsPerSecond,
    /// Open connections.
    Connections,
    /// Bytes per second on the network, in and out, without the loopback.
    Traffic,
}

/// What a signal's value is a number of.
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
    /// All of them, in the order they are shown.
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

    /// Its name in rule files, metrics and readings.
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

    /// What its value is a number of.
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

    /// Whether it is measured of a rule's own requests, and not of the process or machine.
    pub const fn is_of_requests(self) -> bool {
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

/// A limit of requests inside at once that finds its own value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// It never falls below this.
    pub least: u32,
    /// It never rises above this.
    pub most: u32,
    /// Where it starts.
    pub start: u32,
    /// A response time that is too long whatever else is known; `None`: none is.
    pub max_rt: Option<Duration>,
    /// The longest that a request waits for a place; `None`: some of the times that a request takes.
    pub max_wait: Option<Duration>,
    /// The most requests that wait for a place.
    pub max_waiting: u32,
}

impl Default for Auto {
    fn default() -> Self {
        Self { least: 2, most: 10_000, start: 20, max_rt: None, max_wait: None, max_waiting: 1_000 }
    }
}

/// A rate that keeps the CPU from being used up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuGuard {
    /// The share of the CPU that requests are let in for.
    pub target: f64,
    /// It acts only while more than this share is used, or work waits for a CPU, or the quota runs out.
    pub above: f64,
}

impl Default for CpuGuard {
    fn default() -> Self {
        Self { target: 0.8, above: 0.85 }
    }
}

impl Signal {
    /// A value of it as people write it: `5.2`, `87%`, `130ms`, `12.5MB/s`.
    pub fn written(self, value: f64) -> String {
        self.unit().written(value)
    }
}

impl SignalUnit {
    /// A value as people write it, with three digits or so: `5.2`, `87%`, `130ms`, `12.5MB/s`.
    pub fn written(self, value: f64) -> String {
        match self {
            Self::Number => number(value),
            Self::Share => format!("{}%", number(value * 100.0)),
            Self::Seconds if value.abs() < 1.0 => format!("{}ms", number(value * 1e3)),
            Self::Seconds => format!("{}s", number(value)),
            Self::BytesPerSecond => {
                let scales = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s")];
                let scale = scales.into_iter().find(|(scale, _)| value.abs() >= *scale);
                let (scale, unit) = scale.unwrap_or((1.0, "B/s"));
                format!("{}{unit}", number(value / scale))
            }
        }
    }
}

/// With three digits or so: `0.05`, `4`, `5.2`, `1234`.
fn number(number: f64) -> String {
    let places = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 1.0 => 1,
        _ => 2,
    };
    let written = format!("{number:.places$}");
    let short = if places > 0 { written.trim_end_matches('0').trim_end_matches('.') } else { &written };
    if short.is_empty() || short == "-0" { "0".to_owned() } else { short.to_owned() }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signal, comparison, enter, .. } = self;
        write!(f, "{} {} ", signal.name(), comparison.sign())?;
        match signal.unit() {
            // As it was written, which need not be a round number.
            SignalUnit::BytesPerSecond => write!(f, "{}/s", Bytes(enter.max(0.0) as u64)),
            unit => f.write_str(&unit.written(*enter)),
        }
    }
}

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { count, window } => write!(f, "{count}/{}", Span(*window)),
            Self::ShareOfCapacity(share) => write!(f, "{} of capacity", SignalUnit::Share.written(*share)),
        }
    }
}

impl fmt::Display for Adaptive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ceiling(Ceiling { conditions, need, most, .. }) => {
                write!(f, "{most} while ")?;
                let between = match need {
                    Need::All => " and ",
                    Need::Any => " or ",
                };
                for (nth, condition) in conditions.iter().enumerate() {
                    write!(f, "{}{condition}", if nth > 0 { between } else { "" })?;
                }
                Ok(())
            }
            Self::Auto(Auto { least, most, .. }) => write!(f, "{least} to {most} at once, as many as do well"),
            Self::Cpu(CpuGuard { target, above }) => {
                write!(
                    f,
                    "{} of the CPU while cpu > {}",
                    SignalUnit::Share.written(*target),
                    SignalUnit::Share.written(*above)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_written_as_people_write_it() {
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
            assert_eq!(signal.written(of), expected);
        }
    }

    #[test]
    fn protections_are_said_in_a_line() {
        let conditions = [
            Condition::new(Signal::Load5, Comparison::Above, 4.0),
            Condition::new(Signal::AverageResponseTime, Comparison::Above, 0.1),
        ];
        let most = Most::Rate { count: 100, window: Duration::from_secs(1) };
        let ceiling = Adaptive::Ceiling(Ceiling::new(conditions, most));
        assert_eq!(ceiling.to_string(), "100/1s while load5 > 4 and avg_rt > 100ms");
        assert_eq!(Adaptive::Cpu(CpuGuard::default()).to_string(), "80% of the CPU while cpu > 85%");
    }
}
