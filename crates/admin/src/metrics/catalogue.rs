//! Metric catalogue.
//!
//! Names follow OpenTelemetry. Prometheus names are derived: dots become underscores, the unit is appended, and
//! counters end in `_total`.

/// Definition of a metric.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Instrument {
    pub(crate) name: &'static str,
    pub(crate) kind: InstrumentKind,
    pub(crate) unit: InstrumentUnit,
    pub(crate) help: &'static str,
}

/// Kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstrumentKind {
    /// Grows until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations per bucket.
    Histogram,
}

/// Unit of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstrumentUnit {
    Seconds,
    Bytes,
    /// A ratio from 0 to 1.
    Ratio,
    /// A count with its unit in OpenTelemetry style: `{decision}`.
    Count(&'static str),
}

impl InstrumentUnit {
    /// UCUM unit, as used by OpenTelemetry.
    pub(crate) const fn ucum(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Ratio => "1",
            Self::Count(things) => things,
        }
    }

    /// Unit suffix of the Prometheus name, if any.
    pub(crate) const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
            Self::Ratio => Some("ratio"),
            Self::Count(_) => None,
        }
    }
}

/// Defines the instruments: a static for each, and a list of all.
macro_rules! instruments {
    ($($(#[doc = $doc:literal])* $id:ident: $kind:ident $name:literal [$unit:expr] $help:literal;)*) => {
        $(
            $(#[doc = $doc])*
            pub(crate) static $id: Instrument =
                Instrument { name: $name, kind: InstrumentKind::$kind, unit: $unit, help: $help };
        )*

        /// All instruments.
        #[cfg(test)]
        pub(crate) static ALL: &[&Instrument] = &[$(&$id),*];
    };
}

use InstrumentUnit::{Bytes, Count, Ratio, Seconds};

instruments! {
    DECISIONS: Counter "sluicegate.decisions" [Count("{decision}")]
        "Requests decided by a rule, by verdict; would_refuse is a refusal by a shadow rule";
    DECISIONS_DEGRADED: Counter "sluicegate.decisions_degraded" [Count("{decision}")]
        "Requests decided by a rule without its store";
    WAIT: Histogram "sluicegate.wait" [Seconds]
        "Time that a rule delayed requests";
    WAITING: Gauge "sluicegate.waiting" [Count("{request}")]
        "Requests that a rule currently delays";
    PERMITS: Gauge "sluicegate.permits" [Count("{permit}")]
        "Concurrency permits held in this process";
    LIMIT_USED: Gauge "sluicegate.limit_used" [Ratio]
        "Used share of the tightest limit, for rules without a key";
    BANDWIDTH: Counter "sluicegate.bandwidth" [Bytes]
        "Bytes sent under the bandwidth limits of a rule";
    KEYS_EVICTED: Counter "sluicegate.keys_evicted" [Count("{key}")]
        "Keys evicted for lack of memory while their quota was partly used";
    KEYS_MEMORY: Gauge "sluicegate.keys_memory" [Bytes]
        "Memory allocated for the keys of all rules, used or unused";
    LIST_HITS: Counter "sluicegate.list_hits" [Count("{request}")]
        "Requests decided by a list";
    BANS: Gauge "sluicegate.bans" [Count("{ban}")]
        "Bans in force";
    RULES: Gauge "sluicegate.rules" [Count("{rule}")]
        "Rules in force";
    RULES_VERSION: Gauge "sluicegate.rules_version" [Count("{version}")]
        "Version of the rules in force";
    RELOADS: Counter "sluicegate.reloads" [Count("{reload}")]
        "Rule reloads, by result";
    LAST_RELOAD_SUCCESSFUL: Gauge "sluicegate.last_reload_successful" [Count("{reload}")]
        "1 if the last rule reload succeeded, otherwise 0";
    STORE_UP: Gauge "sluicegate.store_up" [Count("{store}")]
        "1 if the store is connected, otherwise 0";
    STORE_NODES: Gauge "sluicegate.store_nodes" [Count("{process}")]
        "Processes that share the store";
    STORE_DECISIONS: Counter "sluicegate.store_decisions" [Count("{decision}")]
        "Decisions that required the store";
    STORE_CALLS: Counter "sluicegate.store_calls" [Count("{call}")]
        "Calls sent to the store, each for many decisions";
    STORE_TIMEOUTS: Counter "sluicegate.store_timeouts" [Count("{decision}")]
        "Decisions that the store did not return in time";
    STORE_QUEUE_FULL: Counter "sluicegate.store_queue_full" [Count("{decision}")]
        "Decisions made without the store because its queue was full";
    STORE_BREAKER_REJECTIONS: Counter "sluicegate.store_breaker_rejections" [Count("{decision}")]
        "Decisions made without the store because the circuit breaker was open";
    STORE_LATE_RESPONSES: Counter "sluicegate.store_late_responses" [Count("{response}")]
        "Store responses that arrived after the timeout";
    STORE_FAILURES: Counter "sluicegate.store_failures" [Count("{call}")]
        "Failed calls to the store, by reason";
    STORE_BREAKER_OPENINGS: Counter "sluicegate.store_breaker_openings" [Count("{opening}")]
        "Number of times the circuit breaker of the store opened";
    STORE_RECONNECTS: Counter "sluicegate.store_reconnects" [Count("{connection}")]
        "Reconnections to the store";
    LEASES: Gauge "sluicegate.leases" [Count("{lease}")]
        "Keys for which this process holds a lease";
    LEASE_TOKENS: Gauge "sluicegate.lease_tokens" [Count("{token}")]
        "Unspent tokens in all leases of this process";
    LEASES_ACQUIRED: Counter "sluicegate.leases_acquired" [Count("{lease}")]
        "Leases acquired for keys that had none";
    LEASES_RENEWED: Counter "sluicegate.leases_renewed" [Count("{lease}")]
        "Leases extended, with or without more tokens";
    LEASES_RETURNED: Counter "sluicegate.leases_returned" [Count("{lease}")]
        "Leases returned to the store, fully or partly unspent";
    LEASES_EXPIRED: Counter "sluicegate.leases_expired" [Count("{lease}")]
        "Leases that expired before they were spent; the unspent tokens count as spent";
    ADAPTIVE_STATE: Gauge "sluicegate.adaptive_state" [Count("{rule}")]
        "State of an adaptive rule; the current state has the value 1";
    ADAPTIVE_CONCURRENCY_LIMIT: Gauge "sluicegate.adaptive_concurrency_limit" [Count("{request}")]
        "Current concurrency limit of an adaptive rule";
    ADAPTIVE_RATE_LIMIT: Gauge "sluicegate.adaptive_rate_limit" [Count("{request}/s")]
        "Current rate limit of an adaptive rule, in requests per second";
    ADAPTIVE_IN_FLIGHT: Gauge "sluicegate.adaptive_in_flight" [Count("{request}")]
        "Requests in flight under an adaptive rule";
    ADAPTIVE_ARRIVALS: Gauge "sluicegate.adaptive_arrivals" [Count("{request}/s")]
        "Requests per second that arrived at an adaptive rule in the last second, including refused ones";
    ADAPTIVE_AVERAGE_RESPONSE_TIME: Gauge "sluicegate.adaptive_average_response_time" [Seconds]
        "Average response time under an adaptive rule in the last second";
    ADAPTIVE_RESPONSE_TIME: Gauge "sluicegate.adaptive_response_time" [Seconds]
        "Response time percentile under an adaptive rule in the last second";
    HOST_LOAD: Gauge "sluicegate.host_load" [Count("{task}")]
        "Load average of the host";
    HOST_LOAD_PER_CORE: Gauge "sluicegate.host_load_per_core" [Count("{task}")]
        "Load average over one minute per core available to this process";
    HOST_CPU: Gauge "sluicegate.host_cpu" [Ratio]
        "Used share of the CPU, of the host and of the part available to this process";
    HOST_CPU_PRESSURE: Gauge "sluicegate.host_cpu_pressure" [Ratio]
        "Share of time in which tasks waited for a CPU";
    HOST_CPU_THROTTLED: Gauge "sluicegate.host_cpu_throttled" [Ratio]
        "Share of scheduling periods in which the CPU quota was exhausted";
    HOST_MEMORY: Gauge "sluicegate.host_memory" [Ratio]
        "Used share of the memory available to this process";
    HOST_CONNECTIONS: Gauge "sluicegate.host_connections" [Count("{connection}")]
        "Open connections, as seen by adaptive rules";
    HOST_TRAFFIC: Gauge "sluicegate.host_traffic" [Count("By/s")]
        "Network traffic in and out in bytes per second, without loopback";
    HOST_SIGNAL_READABLE: Gauge "sluicegate.host_signal_readable" [Count("{signal}")]
        "1 if a host signal is readable, otherwise 0; conditions on unreadable signals do not hold";
    GATEWAY_CONNECTIONS: Gauge "sluicegate.gateway_connections" [Count("{connection}")]
        "Connections of the gateway, by state";
    GATEWAY_CONNECTIONS_ACCEPTED: Counter "sluicegate.gateway_connections_accepted" [Count("{connection}")]
        "Connections accepted by the gateway";
    GATEWAY_CONNECTIONS_REJECTED: Counter "sluicegate.gateway_connections_rejected" [Count("{connection}")]
        "Connections rejected by the gateway";
    GATEWAY_CONNECTIONS_MIGRATED: Counter "sluicegate.gateway_connections_migrated" [Count("{connection}")]
        "Connections migrated to the gateway thread on the CPU of their client";
    GATEWAY_IN_FLIGHT: Gauge "sluicegate.gateway_in_flight" [Count("{request}")]
        "Requests in flight in the gateway";
    GATEWAY_REQUESTS: Counter "sluicegate.gateway_requests" [Count("{request}")]
        "Requests that the gateway responded to, by status class";
    ACCESS_LOG_DROPPED_LINES: Counter "sluicegate.access_log_dropped_lines" [Count("{line}")]
        "Access log lines dropped because the disk was too slow";
    ACCESS_LOG_FAILURES: Counter "sluicegate.access_log_failures" [Count("{write}")]
        "Failed writes of the access log";
    UPSTREAM_SERVERS: Gauge "sluicegate.upstream_servers" [Count("{server}")]
        "Servers of an upstream, by state";
    UPSTREAM_IN_FLIGHT: Gauge "sluicegate.upstream_in_flight" [Count("{request}")]
        "Requests in flight to an upstream";
    UPSTREAM_FAILURES: Counter "sluicegate.upstream_failures" [Count("{request}")]
        "Failed requests to an upstream";
    SERVER_CONNECTIONS: Gauge "sluicegate.server_connections" [Count("{connection}")]
        "Connections of the decision server, by state";
    SERVER_CONNECTIONS_ACCEPTED: Counter "sluicegate.server_connections_accepted" [Count("{connection}")]
        "Connections accepted by the decision server";
    SERVER_CONNECTIONS_REJECTED: Counter "sluicegate.server_connections_rejected" [Count("{connection}")]
        "Connections rejected by the decision server";
    SERVER_REQUESTS: Counter "sluicegate.server_requests" [Count("{call}")]
        "Requests that the decision server responded to, by protocol";
    DESCRIPTORS: Counter "sluicegate.descriptors" [Count("{descriptor}")]
        "Descriptors counted by value, as an envoyproxy/ratelimit file requests, by verdict";
    BUILD_INFO: Gauge "sluicegate.build_info" [Count("{build}")]
        "Version of the program, as a label";
    PROCESS_START_TIME: Gauge "process.start_time" [Seconds]
        "Start time of the process in seconds since the Unix epoch";
    PROCESS_CPU: Counter "process.cpu" [Seconds]
        "CPU time used by the process";
    PROCESS_RESIDENT_MEMORY: Gauge "process.resident_memory" [Bytes]
        "Resident memory of the process";
    PROCESS_OPEN_FDS: Gauge "process.open_fds" [Count("{file}")]
        "Open file descriptors of the process";
    PROCESS_MAX_FDS: Gauge "process.max_fds" [Count("{file}")]
        "Maximum number of open file descriptors of the process";
}
