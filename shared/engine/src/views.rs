//! Views: what people and models are shown, as pure functions of the state or of the events.
//!
//! From the state, as it is now: [`agent_state`] (all of it as JSON), [`todo`](mod@todo) (the plan as a
//! list), [`plan_diff`] (what another plan would change), [`memory`] (session memory for a prompt),
//! [`mod@title`] (what people call the session).
//!
//! From the events, folded one by one in the order of the journal and in time proportional to
//! them: [`tree`] (what was done, as a tree) with its renderings [`history`] (for a model whose
//! window is full) and [`dump`] (for people and programs who debug); [`report`] (a run in Markdown).
//!
//! What models, tools and people wrote is untrusted. [`dump`] and [`report`] neutralise it with
//! [`safe`]; the other views pass it on as it is, and their callers must do the same.

pub mod agent_state;
pub mod dump;
pub mod figures;
pub mod history;
pub mod memory;
pub mod plan_diff;
pub mod report;
pub mod safe;
pub mod title;
pub mod todo;
pub mod tree;
