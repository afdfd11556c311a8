//! A table with one entry for each budget.

use crate::event::Budget;
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// One value for each budget, in the budget's unit: tool turns, tokens, 10⁻⁹ US dollars, milliseconds,
/// tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerBudget<T>([T; Budget::ALL.len()]);

impl<T> PerBudget<T> {
    /// The table of what `value` gives for each.
    pub fn of(value: impl FnMut(Budget) -> T) -> Self {
        Self(Budget::ALL.map(value))
    }
}

/// Other budgets have the default.
impl<T: Copy + Default, const N: usize> From<[(Budget, T); N]> for PerBudget<T> {
    fn from(values: [(Budget, T); N]) -> Self {
        let mut table = Self::default();
        for (budget, value) in values {
            table[budget] = value;
        }
        table
    }
}

impl<T> Index<Budget> for PerBudget<T> {
    type Output = T;

    fn index(&self, budget: Budget) -> &T {
        &self.0[budget as usize]
    }
}

impl<T> IndexMut<Budget> for PerBudget<T> {
    fn index_mut(&mut self, budget: Budget) -> &mut T {
        &mut self.0[budget as usize]
    }
}
