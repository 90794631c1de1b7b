//! Capacity accounting of the classes. Pure arithmetic.

/// Total capacity, and the use by each class.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    total: usize,
    /// Sum over all classes of the larger of use and reserve; never above the total.
    claimed: usize,
    shares: Vec<ClassCapacity>,
}

/// Capacity and use of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassCapacity {
    pub(super) max: usize,
    pub(super) reserve: usize,
    pub(super) used: usize,
}

impl ClassCapacity {
    pub(super) const fn new(max: usize, reserve: usize) -> Self {
        Self { max, reserve, used: 0 }
    }
}

impl Capacity {
    /// The sum of the reserves must not exceed the total.
    pub(super) fn new(total: usize, shares: Vec<ClassCapacity>) -> Self {
        let claimed = shares.iter().map(|share| share.reserve).sum();
        Self { total, claimed, shares }
    }

    pub(super) const fn total(&self) -> usize {
        self.total
    }

    pub(super) fn share(&self, class: usize) -> ClassCapacity {
        self.shares[class]
    }

    /// True if the class may use one more permit: from its reserve, or from capacity that is neither used nor reserved.
    pub(super) fn has_room(&self, class: usize) -> bool {
        let ClassCapacity { max, reserve, used } = self.shares[class];
        used < max && (used < reserve || self.claimed < self.total)
    }

    /// Takes a permit. Requires [`Capacity::has_room`].
    pub(super) fn take(&mut self, class: usize) {
        let share = &mut self.shares[class];
        if share.used >= share.reserve {
            self.claimed += 1;
        }
        share.used += 1;
    }

    /// Releases a permit.
    pub(super) fn release(&mut self, class: usize) {
        let share = &mut self.shares[class];
        share.used -= 1;
        if share.used >= share.reserve {
            self.claimed -= 1;
        }
    }
}
