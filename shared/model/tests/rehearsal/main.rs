//! The rehearsal model from a goal to a report, over unlike folders; every statement of a report
//! is counted anew.

mod adversarial;
mod driver;
mod folders;
mod model;
mod recount;
mod resume;
mod tools;
mod try_it;
