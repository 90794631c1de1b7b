//! A rate whose height changes at any time, with the higher classes' share kept free for them.
//!
//! **Bound.** In any span of the window no more is let in than the height at its end, whatever the classes. Within the
//! window those who come are spaced out, but for a small burst: what is let in under strain must not come in lumps.
//! The highest class is not spaced.
//!
//! **Classes.** What the higher classes asked for in the last window is kept free for them, so that the lowest is
//! shed first, and the highest last.

use std::time::Duration;

use super::meter::{CLASSES, place};
use crate::rule::Priority;
use crate::time::Timestamp;

/// Into how many cells the window is cut. What was let in counts for up to a cell longer than the window.
const CELLS: u64 = 50;
/// The share of the window that may come in one lump.
const LUMP: f64 = 0.1;

/// How many may come in which time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Height {
    /// How many; the part behind the point only matters for the spacing.
    pub count: f64,
    /// In which time.
    pub window: Duration,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    number: u64,
    asked: [u32; CLASSES],
    let_in: [u32; CLASSES],
}

/// Who asked and was let in during the last window.
pub(super) struct RateWindow {
    cell: u64,
    cells: Box<[Cell]>,
    /// The earliest moment the next one may come if there were no lump, in nanoseconds.
    due: f64,
}

impl RateWindow {
    pub(super) fn new(window: Duration) -> Self {
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let cells = vec![Cell::default(); CELLS as usize + 1].into_boxed_slice();
        Self { cell: nanos.div_ceil(CELLS).max(1), cells, due: 0.0 }
    }

    /// Whether it is cut for windows of this length.
    pub(super) fn is_for(&self, window: Duration) -> bool {
        u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).div_ceil(CELLS).max(1) == self.cell
    }

    /// Lets one in, or says how long until there may be room.
    pub(super) fn enter(&mut self, now: Timestamp, class: Priority, height: Height) -> Result<(), Duration> {
        let looked = self.look(now, class, height);
        let class = place(class);
        let cell = self.cell_at(now.as_nanos() / self.cell);
        cell.asked[class] = cell.asked[class].saturating_add(1);
        if looked.is_ok() {
            cell.let_in[class] = cell.let_in[class].saturating_add(1);
            self.due = self.due.max(now.as_nanos() as f64) + self.spacing(height);
        }
        looked
    }

    /// Whether one would be let in.
    pub(super) fn look(&self, now: Timestamp, class: Priority, height: Height) -> Result<(), Duration> {
        let number = now.as_nanos() / self.cell;
        let class = place(class);
        let mut asked_above = 0u64;
        let (mut all, mut up_to_class) = (0u64, 0u64);
        let mut oldest = number;
        for cell in self.cells.iter().filter(|cell| cell.number + CELLS >= number) {
            asked_above += cell.asked[class + 1..].iter().map(|count| u64::from(*count)).sum::<u64>();
            up_to_class += cell.let_in[..=class].iter().map(|count| u64::from(*count)).sum::<u64>();
            all += cell.let_in.iter().map(|count| u64::from(*count)).sum::<u64>();
            if cell.let_in.iter().chain(&cell.asked[class + 1..]).any(|count| *count > 0) {
                oldest = oldest.min(cell.number);
            }
        }
        let most = height.count.max(0.0) as u64;
        // They do not come evenly: as much more is kept free as chance may bring.
        let kept_free = asked_above + (asked_above as f64).sqrt().ceil() as u64;
        let is_full = all >= most || up_to_class >= most.saturating_sub(kept_free);
        // With no room in the window at all, there is none before the oldest cell that takes some drops out.
        let out = (oldest + CELLS + 1).saturating_mul(self.cell).saturating_sub(now.as_nanos()).max(1);
        let wait = if is_full { out } else { 0 }.max(self.early(now, class, height));
        if wait == 0 { Ok(()) } else { Err(Duration::from_nanos(wait)) }
    }

    /// How much too early it is for one more of this class, by the spacing, in nanoseconds.
    fn early(&self, now: Timestamp, class: usize, height: Height) -> u64 {
        if class + 1 == CLASSES {
            return 0;
        }
        let spacing = self.spacing(height);
        // A lower class leaves a part of the lump to those above it.
        let own_part = (class + 1) as f64 / CLASSES as f64;
        let lump = (height.window.as_nanos() as f64 * LUMP * own_part).max(spacing);
        (self.due - now.as_nanos() as f64 - lump + spacing).ceil() as u64
    }

    /// How far apart two would come if all came evenly, in nanoseconds.
    fn spacing(&self, height: Height) -> f64 {
        self.cell as f64 * CELLS as f64 / height.count.max(f64::MIN_POSITIVE)
    }

    fn cell_at(&mut self, number: u64) -> &mut Cell {
        let cells = self.cells.len() as u64;
        let cell = &mut self.cells[(number % cells) as usize];
        if cell.number != number {
            *cell = Cell { number, ..Cell::default() };
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Lets classes ask in turn every so many microseconds for some seconds; answers the moments each was let in.
    fn run(asks: &[(Priority, u64)], seconds: u64, height: impl Fn(u64) -> f64) -> [Vec<u64>; CLASSES] {
        let mut window = RateWindow::new(SECOND);
        let mut moments: Vec<(u64, Priority)> = Vec::new();
        for (class, every) in asks {
            moments.extend((0..seconds * 1_000_000 / every).map(|nth| (10_000_000 + nth * every, *class)));
        }
        moments.sort_unstable();
        let mut let_in = [const { Vec::new() }; CLASSES];
        for (micros, class) in moments {
            let now = Timestamp::from_nanos(micros * 1_000);
            let height = Height { count: height(micros), window: SECOND };
            if window.enter(now, class, height).is_ok() {
                let_in[place(class)].push(micros);
            }
        }
        let_in
    }

    fn most_in_any_second(mut moments: Vec<u64>) -> usize {
        moments.sort_unstable();
        let mut first = 0;
        let spans = moments.iter().enumerate().map(|(last, at)| {
            while at - moments[first] >= 1_000_000 {
                first += 1;
            }
            last + 1 - first
        });
        spans.max().unwrap_or(0)
    }

    #[test]
    fn no_second_has_more_than_the_height_and_few_have_much_less() {
        let [_, normal, _] = run(&[(Priority::Normal, 777)], 20, |_| 100.0);
        assert!(most_in_any_second(normal.clone()) <= 100);
        assert!(normal.len() > 1_900, "{}", normal.len());
        // In no tenth of a second comes more than the lump and what is due.
        let crowded = normal.windows(21).filter(|span| span[20] - span[0] < 100_000).count();
        assert_eq!(crowded, 0);
    }

    #[test]
    fn a_height_that_falls_holds_at_once() {
        let [_, normal, _] = run(&[(Priority::Normal, 500)], 10, |at| if at < 15_000_000 { 400.0 } else { 100.0 });
        let later: Vec<u64> = normal.into_iter().filter(|at| *at >= 15_000_000).collect();
        assert!(most_in_any_second(later.clone()) <= 100);
        // What came before the fall counts too: nobody comes for most of a second.
        assert!(later.iter().filter(|at| **at < 15_500_000).count() == 0);
    }

    #[test]
    fn the_lowest_class_is_shed_first() {
        use Priority::{Background, Normal, Vip};
        let classes = [(Vip, 20_000), (Normal, 20_000), (Background, 10_000)];
        // 50/s, 50/s and 100/s are asked for, 120/s have room.
        let [background, normal, vip] = run(&classes, 20, |_| 120.0);
        // At first nobody knows yet what the highest class needs.
        assert_eq!(vip.iter().filter(|at| **at >= 12_000_000).count(), 900);
        assert!(normal.len() > 970, "{}", normal.len());
        assert!((100..=400).contains(&background.len()), "{}", background.len());
        // 60/s have room: the highest class takes what it needs.
        let [background, normal, vip] = run(&classes, 20, |_| 60.0);
        assert!(vip.len() > 995, "{}", vip.len());
        assert!((20..=200).contains(&normal.len()), "{}", normal.len());
        assert!(background.len() <= 10, "{}", background.len());
    }

    /// Who was told to come again in 20 ms would be turned away fifty times.
    #[test]
    fn who_comes_when_it_was_told_to_gets_in_and_not_before() {
        let height = Height { count: 3.0, window: SECOND };
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        // What stands in the way: first the window, then the spacing.
        for (last, moment) in [(5_680, 6_020), (5_700, 6_034)] {
            let mut window = RateWindow::new(SECOND);
            for millis in [5_000, 5_340, last] {
                assert_eq!(window.enter(at(millis), Priority::Normal, height), Ok(()));
            }
            let wait = window.enter(at(5_710), Priority::Normal, height).unwrap_err();
            assert_eq!(wait.as_nanos().div_ceil(1_000_000), moment - 5_710);
            let then = at(5_710) + wait;
            assert!(window.look(Timestamp::from_nanos(then.as_nanos() - 1), Priority::Normal, height).is_err());
            assert_eq!(window.look(then, Priority::Normal, height), Ok(()));
        }
    }

    #[test]
    fn waits_are_never_zero_and_a_height_of_nothing_lets_nobody_in() {
        let mut window = RateWindow::new(SECOND);
        let shut = Height { count: 0.0, window: SECOND };
        for nanos in [0, 1, 999_999_999, u64::MAX / 2] {
            let refused = window.enter(Timestamp::from_nanos(nanos), Priority::Vip, shut);
            assert!(refused.is_err_and(|wait| wait > Duration::ZERO));
        }
    }
}
