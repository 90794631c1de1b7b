//! Scripts of the algorithms, included from the engine's list of algorithms.
//!
//! The script of an algorithm defines `algorithms[NUMBER]`, where `NUMBER` stands for the [number] of the script in
//! encoded limits. It is not stored, so it may differ between versions.

use sluicegate_engine::algorithm::{self, Describe};

/// Script of one algorithm. Several algorithms may share a script.
struct AlgorithmScript {
    algorithm: &'static str,
    name: &'static str,
    source: &'static str,
}

macro_rules! list_scripts {
    ($($(#[$doc:meta])* $algorithm:ident $script:literal;)*) => {
        const SCRIPTS: &[AlgorithmScript] = &[$(AlgorithmScript {
            algorithm: <algorithm::$algorithm as Describe>::DESCRIPTION.name,
            name: $script,
            source: include_str!(concat!("scripts/", $script, ".lua")),
        }),*];
    };
}
sluicegate_engine::for_each_algorithm!(list_scripts);

/// Number of an algorithm's script.
pub(crate) fn number(algorithm: &str) -> u8 {
    let script = SCRIPTS.iter().find(|script| script.algorithm == algorithm);
    let index = script.and_then(|script| SCRIPTS.iter().position(|first| first.name == script.name));
    index.map_or(0, |index| index as u8 + 1)
}

/// Sources of all scripts, each once.
pub(crate) fn sources() -> impl Iterator<Item = String> {
    let first = |(index, script): &(usize, &AlgorithmScript)| {
        SCRIPTS[..*index].iter().all(|earlier| earlier.name != script.name)
    };
    let numbered = SCRIPTS.iter().enumerate().filter(first);
    numbered.map(|(index, script)| script.source.replace("NUMBER", &(index + 1).to_string()))
}
