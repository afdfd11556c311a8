//! Items by small numbers, which are used again.

/// Items that keep their number until they are removed.
#[derive(Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Number of the next item that is inserted.
    pub(super) fn next(&self) -> u32 {
        // Memory ends long before the numbers do.
        let new = || u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.free.last().copied().unwrap_or_else(new)
    }

    pub(super) fn insert(&mut self, item: T) -> u32 {
        let number = self.next();
        match self.free.pop() {
            Some(number) => self.items[number as usize] = Some(item),
            None => self.items.push(Some(item)),
        }
        number
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let item = self.items.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(item)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }

    /// One more than the greatest number.
    pub(super) fn numbers(&self) -> usize {
        self.items.len()
    }

    /// The item of every number from 0.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        self.items.iter().map(Option::as_ref)
    }
}
