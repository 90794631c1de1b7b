//! Ours, theirs, ours, theirs, and the middle of each: where whole programs share a machine, the best round
//! is luck.

/// Runs both sides once per round and returns the median figure of each.
pub(crate) fn median_of(rounds: usize, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) -> [f64; 2] {
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..rounds).map(|_| (ours(), theirs())).unzip();
    [ours, theirs].map(|mut figures| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    })
}
