//! Ours, theirs, ours, theirs, and the middle of each: where whole programs share a machine, the best round
//! is luck.

/// Measures every side once per round, in the order given, and returns the median figure of each.
pub(crate) fn medians<S>(rounds: usize, sides: &[S], measure: impl Fn(&S) -> f64) -> Vec<f64> {
    let mut figures = vec![Vec::with_capacity(rounds); sides.len()];
    for _ in 0..rounds {
        for (figures, side) in figures.iter_mut().zip(sides) {
            figures.push(measure(side));
        }
    }
    figures.iter_mut().map(|figures| median(figures)).collect()
}

/// Measures two sides in this way.
pub(crate) fn median_of<S>(rounds: usize, sides: [S; 2], measure: impl Fn(&S) -> f64) -> [f64; 2] {
    let figures = medians(rounds, &sides, measure);
    [figures[0], figures[1]]
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
