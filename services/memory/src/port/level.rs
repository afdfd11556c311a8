//! Levels of readers.

/// Names the readers of something: those of this level, and of each higher one.
///
/// Each release has a level. It is higher than the level of the release before if the release writes an
/// event, a command or a value that the release before cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u16);

impl Level {
    /// The level that every reader has.
    pub const FIRST: Self = Self(1);

    /// The highest level that stores can hold.
    pub const HIGHEST: Self = Self(1000);

    /// The level of a number, of which 0 stands for 1; `None` for a number above 1000.
    pub fn of_number(number: u32) -> Option<Self> {
        let level = u16::try_from(number.max(1)).ok().map(Self);
        level.filter(|level| *level <= Self::HIGHEST)
    }

    /// The number, from 1 to 1000.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The level of a number that [`number`](Self::number) gave to a store.
    pub(crate) fn of_stored(number: i64) -> Self {
        let level = u32::try_from(number).ok().and_then(Self::of_number);
        level.unwrap_or(Self::HIGHEST)
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::FIRST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stands_for_the_first_level_and_no_level_is_above_the_highest() {
        for (number, want) in [
            (0, Some(1)),
            (1, Some(1)),
            (2, Some(2)),
            (1000, Some(1000)),
            (1001, None),
            (u32::MAX, None),
        ] {
            assert_eq!(Level::of_number(number).map(Level::number), want);
        }
        for level in [Level::default(), Level::FIRST, Level::HIGHEST] {
            assert_eq!(Level::of_stored(level.number().into()), level);
        }
    }
}
