//! How many are inside, and whether one more may come. Pure counting.

/// All places, and what each class uses of them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    total: usize,
    /// Over all classes, what is in use or reserved, whichever is more: never above the total.
    claimed: usize,
    shares: Vec<Share>,
}

/// What one class uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) max: usize,
    pub(super) reserve: usize,
    pub(super) used: usize,
}

impl Share {
    pub(super) const fn new(max: usize, reserve: usize) -> Self {
        Self { max, reserve, used: 0 }
    }
}

impl Places {
    /// The reserves together must not be more than the total.
    pub(super) fn new(total: usize, shares: Vec<Share>) -> Self {
        let claimed = shares.iter().map(|share| share.reserve).sum();
        Self { total, claimed, shares }
    }

    pub(super) const fn total(&self) -> usize {
        self.total
    }

    pub(super) fn share(&self, class: usize) -> Share {
        self.shares[class]
    }

    /// Whether one more of this class fits: in its reserve, or in what is neither used nor reserved.
    pub(super) fn may_enter(&self, class: usize) -> bool {
        let Share { max, reserve, used } = self.shares[class];
        used < max && (used < reserve || self.claimed < self.total)
    }

    /// One more is inside. It must be allowed to enter.
    pub(super) fn take(&mut self, class: usize) {
        let share = &mut self.shares[class];
        if share.used >= share.reserve {
            self.claimed += 1;
        }
        share.used += 1;
    }

    /// One less is inside.
    pub(super) fn give(&mut self, class: usize) {
        let share = &mut self.shares[class];
        share.used -= 1;
        if share.used >= share.reserve {
            self.claimed -= 1;
        }
    }
}
