//! Claims of a session without progress.

/// Those that count, and the one whose owner has neither written nor renewed yet.
#[derive(Debug, Default, Clone)]
pub(super) struct Claims {
    counted: u32,
    is_unconfirmed: bool,
}

impl Claims {
    pub(super) fn is_full(&self) -> bool {
        self.counted >= 5
    }

    pub(super) fn claim(&mut self) {
        self.is_unconfirmed = true;
    }

    pub(super) fn confirm(&mut self) {
        if std::mem::take(&mut self.is_unconfirmed) {
            self.counted += 1;
        }
    }

    /// The owner let go by itself.
    pub(super) fn release(&mut self) {
        if !std::mem::take(&mut self.is_unconfirmed) {
            self.counted = self.counted.saturating_sub(1);
        }
    }
}
