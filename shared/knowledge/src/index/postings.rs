//! Which entries have one term.

/// A slot in four bytes and a count in one: most of an index's memory are these.
type Posting = [u8; 5];

/// The entries of one term and how often each has it, in no order.
#[derive(Debug, Default)]
pub(super) struct Postings(Vec<Posting>);

impl Postings {
    /// Memory that one posting takes, with the room that is not used.
    pub(super) const BYTES: usize = size_of::<Posting>() + 1;

    /// Adds an entry that is not there. Counts above 255 are alike to every scorer.
    pub(super) fn add(&mut self, slot: u32, count: u32) {
        if self.0.len() == self.0.capacity() {
            // A vector doubles by itself: half of the memory could be unused.
            self.0.reserve_exact(self.0.len() / 4 + 1);
        }
        let [a, b, c, d] = slot.to_le_bytes();
        self.0
            .push([a, b, c, d, u8::try_from(count).unwrap_or(u8::MAX)]);
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let at = self.iter().position(|(own, _)| own == slot);
        if let Some(at) = at {
            self.0.swap_remove(at);
        }
        if self.0.len() < self.0.capacity() / 2 {
            self.0.shrink_to_fit();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u8)> {
        self.0
            .iter()
            .map(|&[a, b, c, d, count]| (u32::from_le_bytes([a, b, c, d]), count))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
