//! Plans and fates in few signs, for tables.
//!
//! A plan: `a b c` is a chain, `g: a b c<a,b` a graph. A step is named by its title; `x:a` gives it
//! another id. `a~` says the same in other words, `a*2` was done again twice, `t=5` is a call with
//! the argument 5 (of `look`, which is pure).
//!
//! A fate: the steps of the plan in force by their numbers, then after `|` the ones that it does not
//! have any more. `d` is done, `r` runs, `p` has not begun, `f` failed, `w` is skipped by wish, `s` is
//! skipped otherwise, `n` is new.

mod plan;

use super::World;
use cairn_engine::session::{Run, StepNo, StepStatus};

pub(crate) use plan::plan;

/// Steps with a number above `known` are new.
pub(crate) fn fates(run: &Run, known: usize) -> String {
    let plan = run.plan.as_ref().unwrap();
    let mark = |(number, status): (StepNo, &StepStatus)| {
        let mark = match status {
            _ if u32::from(number) as usize > known => 'n',
            StepStatus::Pending => 'p',
            StepStatus::Running(_) => 'r',
            StepStatus::Completed { .. } => 'd',
            StepStatus::Failed { .. } => 'f',
            StepStatus::Skipped {
                by_person: true, ..
            } => 'w',
            StepStatus::Skipped { .. } => 's',
        };
        format!("{number}{mark}")
    };
    let current = plan.current().map(|(number, step)| (number, &step.status));
    let current: Vec<String> = current.map(mark).collect();
    let dropped = StepNo::all().zip(&plan.steps);
    let dropped = dropped.filter(|(_, step)| step.place.is_none());
    let dropped = dropped.map(|(number, step)| mark((number, &step.status)));
    let dropped: Vec<String> = dropped.collect();
    match dropped.is_empty() {
        true => current.join(" "),
        false => format!("{} | {}", current.join(" "), dropped.join(" ")),
    }
}

impl World {
    /// How the steps stand; those above `known` are new.
    pub(crate) fn fates(&self, known: usize) -> String {
        fates(self.run(), known)
    }
}
