//! The three numbers of a step, as types, so that the compiler refuses one in place of another.
//!
//! A run keeps every step that it has had in one table, which only grows. The plan in force puts some
//! of them in an order, and every revision may change that order.
//!
//! | type | counts | from |
//! |---|---|---|
//! | [`StepNo`] | the steps of a run, as events and people name them | 1 |
//! | [`Slot`] | the same steps, as the table is indexed | 0 |
//! | [`Place`] | the order of one plan | 0 |
//!
//! A `StepNo` and a `Slot` name the same thing. There are two types because there are two stored
//! formats: events and the names of attempts hold the number, the plan in a checkpoint the slot.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a step of a run, from 1. It stays for the life of the run.
///
/// A number from outside may name no step, and 0 never does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepNo(u32);

/// The index of a step in the table of all steps that its run has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot(u32);

/// The index of a step in the order of a plan. As text it counts from 1, as steps are shown to models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place(u32);

impl StepNo {
    /// The number as an event or a person gives it.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Every number from 1, without end.
    pub fn all() -> impl Iterator<Item = Self> {
        Slot::all().map(Slot::number)
    }

    /// Where the step is in the table; none for 0.
    pub fn slot(self) -> Option<Slot> {
        self.0.checked_sub(1).map(Slot)
    }

    /// The step of this number in a table with an element for each step of the run.
    pub fn find_in<T>(self, table: &[T]) -> Option<&T> {
        table.get(self.slot()?.index())
    }
}

impl Slot {
    /// The number of the step.
    pub fn number(self) -> StepNo {
        StepNo(self.0 + 1)
    }
}

macro_rules! index {
    ($($name:ident)*) => {$(
        impl $name {
            /// Every value from the first, without end.
            pub fn all() -> impl Iterator<Item = Self> {
                (0..).map(Self)
            }

            /// As an index of a list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index!(Slot Place);

impl Place {
    /// The place of that index in a plan, which is shorter than [`MAX_STEPS`](crate::plan::MAX_STEPS).
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&(u64::from(self.0) + 1), f)
    }
}

impl fmt::Display for StepNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A bare number, because errors show the names of attempts and calls.
impl fmt::Debug for StepNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<u32> for StepNo {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl From<StepNo> for u32 {
    fn from(number: StepNo) -> Self {
        number.0
    }
}
