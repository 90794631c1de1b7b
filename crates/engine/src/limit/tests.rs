use super::*;
use crate::algorithm::MAX_PARAMETERS;

/// One limit of every algorithm, with its notation and its words in a saved state.
fn samples() -> Vec<(Limit, &'static str, [u64; encoding::WORDS])> {
    const SECOND: u64 = 1_000_000_000;
    let (rate, minute) = (Rate::per_second(10).unwrap(), Duration::from_secs(60));
    let bytes = Rate::per_second(2 << 20).unwrap();
    [
        (Limit::token_bucket(rate, 25), "token_bucket 10/s, burst 25", [1, 10, SECOND, 25, 0]),
        (Limit::token_bucket(rate, 25).map(Limit::reservable), "token_bucket 10/s, burst 25", [1, 10, SECOND, 25, 1]),
        (Limit::leaky_bucket(rate, 5), "leaky_bucket 10/s, queue 5", [2, 10, SECOND, 5, 0]),
        (Limit::fixed_window(7, minute, Alignment::Epoch), "fixed_window 7/1m", [3, 7, 60 * SECOND, 0, 0]),
        (
            Limit::fixed_window(7, minute, Alignment::FirstUse),
            "fixed_window 7/1m, from first use",
            [3, 7, 60 * SECOND, 1, 0],
        ),
        ("300/1m".parse(), "sliding_window 300/1m, 10 cells", [4, 300, 60 * SECOND, 10, 0]),
        (Limit::interpolated_window(7, minute), "interpolated_window 7/1m", [5, 7, 60 * SECOND, 0, 0]),
        (Limit::sliding_log(7, Duration::from_secs(1)), "sliding_log 7/1s", [6, 7, SECOND, 0, 0]),
        (Limit::concurrency(50), "concurrency 50", [7, 50, 0, 0, 0]),
        (Limit::bandwidth(bytes, 8 << 20), "bandwidth 2MiB/1s, burst 8MiB", [8, 2 << 20, SECOND, 8 << 20, 0]),
        (Limit::warm_up(rate, minute, 3), "warm_up 10/s after 1m, cold factor 3", [9, 10, SECOND, 60 * SECOND, 3]),
    ]
    .map(|(limit, notation, words)| (limit.unwrap(), notation, words))
    .into()
}

/// Processes of different versions read each other's saved states, so the words must never change.
#[test]
fn limits_have_their_notation_and_their_words() {
    for (limit, notation, words) in samples() {
        assert_eq!((limit.to_string().as_str(), encoding::encode(&limit)), (notation, words));
        assert_eq!(encoding::decode(words).unwrap(), limit, "{notation}");
    }
}

#[test]
fn arguments_build_an_equal_limit() {
    for (limit, notation, words) in samples() {
        let rebuilt = Limit::from_arguments(limit.algorithm(), &limit.arguments()).unwrap();
        let rebuilt = if words[4] == 1 && limit.supports_reservations() { rebuilt.reservable() } else { rebuilt };
        assert_eq!(rebuilt, limit, "{notation}");
    }
    assert!(Limit::from_arguments("unknown", &LimitArguments::default()).is_err());
}

#[test]
fn every_algorithm_is_described() {
    for (index, description) in DESCRIPTIONS.iter().enumerate() {
        let name = description.name;
        assert!(samples().iter().any(|(limit, ..)| limit.algorithm() == name), "{name}: add a sample");
        assert_eq!(description.parameters.first().map(|main| main.name), Some(name));
        // Parameters and the flag of reservations must have room in a saved state.
        let room = MAX_PARAMETERS - usize::from(description.reservable);
        assert!(description.parameters.len() <= room, "{name}");
        assert!(DESCRIPTIONS[..index].iter().all(|other| other.code != description.code), "{name}");
        assert!(description.parameters[1..].iter().all(|option| option.notation.contains("{}")), "{name}");
    }
}
