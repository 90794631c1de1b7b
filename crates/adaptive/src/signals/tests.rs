//! No parser may panic, whatever the kernel or a fake of it writes.

use proptest::prelude::*;
use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::Signal;

use super::cgroup::{self, place};
use super::{Machine, cpu_list, loadavg, meminfo, net_dev, proc_stat, psi, self_stat, sockstat};

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
    let _ = cgroup::v2::most_memory(text);
    let _ = cgroup::v2::reclaimable(text);
    let _ = cgroup::v1::cores(text, text);
    let _ = cgroup::v1::usage(text);
    let _ = cgroup::v1::most_memory(text);
    let _ = cgroup::v1::reclaimable(text);
    let _ = place::of_controller("cpu", text, text).map(|place| place.folders());
    let _ = place::unified(text, text);
}

/// Texts that are nearly right: the words of these files, numbers of every size, and bytes in between.
fn nearly_right() -> impl Strategy<Value = String> {
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
    fn no_parser_panics_on_what_is_nearly_right(text in nearly_right()) {
        parse_all(&text);
    }
}

#[test]
fn a_machine_that_is_not_there_is_unknown() {
    let mut machine = Machine::at("/there/is/no/such/folder").with_connections(|| 7);
    for tick in 0..3 {
        let readings = machine.read(Timestamp::from_nanos(tick * 250_000_000));
        for signal in Signal::ALL {
            let expected = match signal {
                Signal::Connections => Some(7.0),
                Signal::CpuThrottled => Some(0.0),
                _ => None,
            };
            assert_eq!(readings.get(signal), expected, "{}", signal.name());
        }
    }
    assert_eq!((machine.cores(), machine.cpu_seconds()), (None, None));
}
