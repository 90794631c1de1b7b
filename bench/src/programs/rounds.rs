//! Interleaved rounds with the median of each contender. For separate programs that share a machine, the median is more
//! stable than the best round.

/// Measures every contender once per round, in the given order, and returns the median figure of each.
pub(crate) fn medians<C>(rounds: usize, contenders: &[C], measure: impl Fn(&C) -> f64) -> Vec<f64> {
    let mut figures = vec![Vec::with_capacity(rounds); contenders.len()];
    for _ in 0..rounds {
        for (figures, contender) in figures.iter_mut().zip(contenders) {
            figures.push(measure(contender));
        }
    }
    figures.iter_mut().map(|figures| median(figures)).collect()
}

/// [`medians`] of two contenders.
pub(crate) fn median_of<C>(rounds: usize, contenders: [C; 2], measure: impl Fn(&C) -> f64) -> [f64; 2] {
    let figures = medians(rounds, &contenders, measure);
    [figures[0], figures[1]]
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
