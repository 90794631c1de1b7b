//! No parser may panic on any text.

use proptest::prelude::*;
use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::Signal;

use super::cgroup::{self, path};
use super::{HostSignals, cpu_list, loadavg, meminfo, net_dev, proc_stat, psi, self_stat, sockstat};

fn parse_all(text: &str) {
    let _ = loadavg::parse(text);
    let _ = proc_stat::parse(text);
    let _ = proc_stat::cpus(text);
    let _ = self_stat::parse(text);
    let _ = psi::parse(text);
    let _ = meminfo::parse(text);
    let _ = net_dev::parse(text);
    let _ = sockstat::parse(text);
    let _ = cpu_list::count(text);
    let _ = cpu_list::allowed(text);
    let _ = cgroup::periods(text);
    let _ = cgroup::v2::cpu_stat(text);
    let _ = cgroup::v2::cores(text);
    let _ = cgroup::v2::memory_limit(text);
    let _ = cgroup::v2::reclaimable(text);
    let _ = cgroup::v1::cores(text, text);
    let _ = cgroup::v1::usage(text);
    let _ = cgroup::v1::memory_limit(text);
    let _ = cgroup::v1::reclaimable(text);
    let _ = path::for_controller("cpu", text, text).map(|path| path.dirs());
    let _ = path::unified(text, text);
}

/// Almost valid texts: field names of these files, numbers of every size, and random bytes.
fn almost_valid_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("cpu ".to_owned()),
        Just("some ".to_owned()),
        Just("total=".to_owned()),
        Just("TCP: inuse ".to_owned()),
        Just("eth0:".to_owned()),
        Just("lo: ".to_owned()),
        Just("MemTotal: ".to_owned()),
        Just("MemAvailable: ".to_owned()),
        Just("usage_usec ".to_owned()),
        Just("nr_periods ".to_owned()),
        Just("Cpus_allowed_list:".to_owned()),
        Just("0::/".to_owned()),
        Just("1:cpu:/a/../b".to_owned()),
        Just("1 2 0:3 / /x\\04 rw - cgroup cgroup rw,cpu".to_owned()),
        Just("1 2 0:3 /r /x\\040y rw - cgroup2 c rw".to_owned()),
        Just("\n".to_owned()),
        Just(" ".to_owned()),
        Just(",".to_owned()),
        Just("-".to_owned()),
        Just(")".to_owned()),
        any::<u64>().prop_map(|number| format!("{number} ")),
        any::<f64>().prop_map(|number| format!("{number} ")),
        any::<String>(),
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_parser_panics_on_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_parser_panics_on_almost_valid_text(text in almost_valid_text()) {
        parse_all(&text);
    }
}

#[test]
fn a_missing_proc_gives_unknown_signals() {
    let mut host = HostSignals::with_root("/no/such/directory").with_connections(|| 7);
    for tick in 0..3 {
        let readings = host.read(Timestamp::from_nanos(tick * 250_000_000));
        for signal in Signal::ALL {
            let expected = match signal {
                Signal::Connections => Some(7.0),
                Signal::CpuThrottled => Some(0.0),
                _ => None,
            };
            assert_eq!(readings.get(signal), expected, "{}", signal.name());
        }
    }
    assert_eq!((host.cores(), host.cpu_seconds()), (None, None));
}
