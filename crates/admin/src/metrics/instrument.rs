//! The instruments there are.
//!
//! Names are those of OpenTelemetry; Prometheus' follow from them: dots become underscores, the unit is put behind,
//! and counters end in `_total`.

/// What is measured.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Instrument {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: Unit,
    pub(crate) help: &'static str,
}

/// How an instrument behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often what was measured fell between which bounds.
    Histogram,
}

/// What an instrument counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
    /// A share, from 0 to 1.
    Ratio,
    /// Things, named as OpenTelemetry does: `{decision}`.
    Things(&'static str),
}

impl Unit {
    /// As OpenTelemetry has it, which is as UCUM does.
    pub(crate) const fn ucum(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Ratio => "1",
            Self::Things(things) => things,
        }
    }

    /// What Prometheus puts behind the name, if anything.
    pub(crate) const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
            Self::Ratio => Some("ratio"),
            Self::Things(_) => None,
        }
    }
}

/// Writes the instruments down once: each by its own name, and all of them together.
macro_rules! instruments {
    ($($(#[doc = $doc:literal])* $id:ident: $kind:ident $name:literal [$unit:expr] $help:literal;)*) => {
        $(
            $(#[doc = $doc])*
            pub(crate) static $id: Instrument =
                Instrument { name: $name, kind: Kind::$kind, unit: $unit, help: $help };
        )*

        /// All of them.
        #[cfg(test)]
        pub(crate) static ALL: &[&Instrument] = &[$(&$id),*];
    };
}

use Unit::{Bytes, Ratio, Seconds, Things};

instruments! {
    DECISIONS: Counter "sluicegate.decisions" [Things("{decision}")]
        "Requests that a rule decided, by verdict; would_refuse: by a rule that only counts";
    DECISIONS_DEGRADED: Counter "sluicegate.decisions_degraded" [Things("{decision}")]
        "Requests that a rule decided without its store";
    WAIT: Histogram "sluicegate.wait" [Seconds]
        "How long a rule made requests wait for their turn";
    WAITING: Gauge "sluicegate.waiting" [Things("{request}")]
        "Requests that wait for their turn now";
    PERMITS: Gauge "sluicegate.permits" [Things("{permit}")]
        "Permits of concurrency limits that are out in this process";
    USED: Gauge "sluicegate.used" [Ratio]
        "Share of the tightest limit that is used now, of rules without a key";
    PASSED: Counter "sluicegate.passed" [Bytes]
        "Bytes that a rule let pass at its pace";
    KEYS_FORGOTTEN: Counter "sluicegate.keys_forgotten" [Things("{key}")]
        "Keys that a rule forgot before they had recovered, for lack of memory";
    MEMORY: Gauge "sluicegate.keys_memory" [Bytes]
        "Memory that the keys of all rules take, whether used or not";
    LIST_HITS: Counter "sluicegate.list_hits" [Things("{request}")]
        "Requests that a list decided";
    BANS: Gauge "sluicegate.bans" [Things("{ban}")]
        "Bans in force";
    RULES: Gauge "sluicegate.rules" [Things("{rule}")]
        "Rules in force";
    RULES_VERSION: Gauge "sluicegate.rules_version" [Things("{version}")]
        "Version of the rules in force";
    RELOADS: Counter "sluicegate.reloads" [Things("{reload}")]
        "Texts of rules that came, by whether they could be put in force";
    LAST_RELOAD: Gauge "sluicegate.last_reload_successful" [Things("{reload}")]
        "Whether the last text of rules that came is in force";
    STORE_UP: Gauge "sluicegate.store_up" [Things("{store}")]
        "Whether the store is asked";
    STORE_NODES: Gauge "sluicegate.store_nodes" [Things("{process}")]
        "Processes that share the store";
    STORE_ASKS: Counter "sluicegate.store_asks" [Things("{decision}")]
        "Decisions that wanted the store";
    STORE_CALLS: Counter "sluicegate.store_calls" [Things("{call}")]
        "Calls that were sent to the store, each for many decisions";
    STORE_TIMEOUTS: Counter "sluicegate.store_timeouts" [Things("{decision}")]
        "Decisions that the store did not answer in time";
    STORE_OVERLOADS: Counter "sluicegate.store_overloads" [Things("{decision}")]
        "Decisions that found too many others waiting for the store";
    STORE_REFUSALS: Counter "sluicegate.store_refusals" [Things("{decision}")]
        "Decisions made at once without the store because it was failing";
    STORE_LATE: Counter "sluicegate.store_late_answers" [Things("{answer}")]
        "Answers of the store that came when nobody waited for them any more";
    STORE_FAILURES: Counter "sluicegate.store_failures" [Things("{call}")]
        "Calls to the store that failed, by what they met";
    STORE_BREAKER: Counter "sluicegate.store_breaker_openings" [Things("{opening}")]
        "How often the store was left alone because it failed";
    STORE_RECONNECTS: Counter "sluicegate.store_reconnects" [Things("{connection}")]
        "Connections to the store that were made again";
    LEASES: Gauge "sluicegate.leases" [Things("{lease}")]
        "Keys of which this process holds a slice that it leased from the store";
    LEASE_TOKENS: Gauge "sluicegate.lease_tokens" [Things("{token}")]
        "Unspent tokens of all slices that this process holds";
    LEASES_TAKEN: Counter "sluicegate.leases_taken" [Things("{lease}")]
        "Slices that came from the store to a key that held none";
    LEASES_RENEWED: Counter "sluicegate.leases_renewed" [Things("{lease}")]
        "Slices that were held and last longer since, with more in them or without";
    LEASES_RETURNED: Counter "sluicegate.leases_returned" [Things("{lease}")]
        "Slices that went back to the store unspent, in whole or in part";
    LEASES_EXPIRED: Counter "sluicegate.leases_expired" [Things("{lease}")]
        "Slices that ended before they were spent; what was left of them counts as spent";
    ADAPTIVE_STATE: Gauge "sluicegate.adaptive_state" [Things("{rule}")]
        "The state a rule that protects the process is in";
    ADAPTIVE_PLACES: Gauge "sluicegate.adaptive_places" [Things("{request}")]
        "How many requests such a rule lets be served at once now";
    ADAPTIVE_RATE: Gauge "sluicegate.adaptive_rate" [Things("{request}/s")]
        "How many requests per second such a rule lets in now";
    ADAPTIVE_IN_FLIGHT: Gauge "sluicegate.adaptive_in_flight" [Things("{request}")]
        "Requests of such a rule that are being served now";
    ADAPTIVE_ARRIVALS: Gauge "sluicegate.adaptive_arrivals" [Things("{request}/s")]
        "Requests per second that came to such a rule in the last second, refused ones included";
    ADAPTIVE_AVERAGE: Gauge "sluicegate.adaptive_average_response_time" [Seconds]
        "The average response time of its requests in the last second";
    ADAPTIVE_TIMES: Gauge "sluicegate.adaptive_response_time" [Seconds]
        "The response time that a share of its requests stayed within, in the last second";
    LOAD: Gauge "sluicegate.machine_load" [Things("{task}")]
        "Tasks that ran or waited to, on average over a time";
    LOAD_PER_CORE: Gauge "sluicegate.machine_load_per_core" [Things("{task}")]
        "Tasks that ran or waited to over the last minute, by the cores that this process may use";
    CPU: Gauge "sluicegate.machine_cpu" [Ratio]
        "Share of the CPU that is used, of the machine's and of what this process may use";
    CPU_PRESSURE: Gauge "sluicegate.machine_cpu_pressure" [Ratio]
        "Share of the time in which work waited for a CPU";
    CPU_THROTTLED: Gauge "sluicegate.machine_cpu_throttled" [Ratio]
        "Share of the scheduling periods in which the CPU quota ran out";
    MACHINE_MEMORY: Gauge "sluicegate.machine_memory" [Ratio]
        "Share of the memory that is used, of what this process may use";
    MACHINE_CONNECTIONS: Gauge "sluicegate.machine_connections" [Things("{connection}")]
        "Open connections, as rules that protect the process see them";
    TRAFFIC: Gauge "sluicegate.machine_traffic" [Things("By/s")]
        "Bytes per second on the network, in and out, without the loopback";
    SIGNAL_READABLE: Gauge "sluicegate.machine_signal_readable" [Things("{signal}")]
        "Whether a signal of the machine could be read; conditions on one that cannot do not hold";
    GATEWAY_CONNECTIONS: Gauge "sluicegate.gateway_connections" [Things("{connection}")]
        "Connections of the gateway, by whether they are served or wait for a place";
    GATEWAY_ENTERED: Counter "sluicegate.gateway_connections_entered" [Things("{connection}")]
        "Connections that the gateway gave a place";
    GATEWAY_REFUSED: Counter "sluicegate.gateway_connections_refused" [Things("{connection}")]
        "Connections that the gateway had no place for";
    GATEWAY_MOVED: Counter "sluicegate.gateway_connections_moved" [Things("{connection}")]
        "Connections that moved to another thread of the gateway, to be nearer to their clients";
    GATEWAY_IN_FLIGHT: Gauge "sluicegate.gateway_in_flight" [Things("{request}")]
        "Requests that the gateway serves now";
    GATEWAY_REQUESTS: Counter "sluicegate.gateway_requests" [Things("{request}")]
        "Requests that the gateway answered, by the class of the status";
    ACCESS_LOG_LOST: Counter "sluicegate.access_log_lost" [Things("{line}")]
        "Lines of the access log that are lost because the disk did not keep up";
    ACCESS_LOG_FAILURES: Counter "sluicegate.access_log_failures" [Things("{write}")]
        "Writes of the access log that failed";
    UPSTREAM_SERVERS: Gauge "sluicegate.upstream_servers" [Things("{server}")]
        "Servers of an upstream, by whether they get requests";
    UPSTREAM_IN_FLIGHT: Gauge "sluicegate.upstream_in_flight" [Things("{request}")]
        "Requests under way to an upstream";
    UPSTREAM_FAILURES: Counter "sluicegate.upstream_failures" [Things("{request}")]
        "Requests that failed at an upstream";
    SERVER_CONNECTIONS: Gauge "sluicegate.server_connections" [Things("{connection}")]
        "Connections of the decision server, by whether they are served or wait for a place";
    SERVER_ENTERED: Counter "sluicegate.server_connections_entered" [Things("{connection}")]
        "Connections that the decision server gave a place";
    SERVER_REFUSED: Counter "sluicegate.server_connections_refused" [Things("{connection}")]
        "Connections that the decision server had no place for";
    SERVER_REQUESTS: Counter "sluicegate.server_requests" [Things("{call}")]
        "Calls that the decision server answered, by protocol";
    DESCRIPTORS: Counter "sluicegate.descriptors" [Things("{descriptor}")]
        "Descriptors by values that a file of envoyproxy/ratelimit wants told apart, by verdict";
    BUILD: Gauge "sluicegate.build_info" [Things("{build}")]
        "Which version runs";
    PROCESS_START: Gauge "process.start_time" [Seconds]
        "When the process began, since the beginning of 1970";
    PROCESS_CPU: Counter "process.cpu" [Seconds]
        "CPU time that the process has used";
    PROCESS_MEMORY: Gauge "process.resident_memory" [Bytes]
        "Memory of the process that is in use";
    PROCESS_FILES: Gauge "process.open_fds" [Things("{file}")]
        "Files that the process has open";
    PROCESS_MOST_FILES: Gauge "process.max_fds" [Things("{file}")]
        "Files that the process may have open";
}
