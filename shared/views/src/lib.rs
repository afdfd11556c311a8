//! Views: what people and programs are shown of a session.
//!
//! A view is a pure function of a session's state or of its events: no clock, no I/O. A function that
//! needs the time takes it as a parameter.
//!
//! | module | made from | shows |
//! |---|---|---|
//! | [`agent_state`] | state | where a run stands, whole, as one JSON value |
//! | [`title`](mod@title) | state | what people call the session |
//! | [`decisions`] | state, events | what people decided, in words |
//! | [`compactions`] | events | what compactions cost, and which requests do not fit |
//! | [`hooked`] | an event | what hooks changed of a call, a reply or a result |
//! | [`placements`] | events | which resources carried out a step, and what it waited for |
//! | [`plan_diff`] | state | what another plan would change |
//! | [`tree`] | events | what a run did: goals, thoughts, calls, results |
//! | [`history`] | the tree | goals, key results and summaries, in place of older messages |
//! | [`dump`] | the tree | every node with all that is known of it, as text and as JSON |
//! | [`report`] | events | a run in Markdown |
//! | [`figures`] | | times, durations and prices as text |
//! | [`elicitation`] | a tool's question | what it asks, and what its tool gets for an answer |
//! | [`file_results`] | | what file tools return, as text; read back by the offline model |
//! | [`safe`] | | untrusted text for terminals and Markdown |
//!
//! Events are folded one by one in the order of the journal, in time proportional to them.
//!
//! Texts of models, tools and people are untrusted. [`dump`] and [`report`] neutralise them with
//! [`safe`]. The other views return them unchanged, and their callers neutralise them.
//!
//! The texts that the engine itself sends to a model, such as the to-do list, are in
//! [`cairn_engine::prompt`].

pub mod agent_state;
pub mod compactions;
pub mod decisions;
pub mod dump;
pub mod elicitation;
pub mod figures;
pub mod file_results;
pub mod history;
pub mod hooked;
pub mod placements;
pub mod plan_diff;
pub mod report;
pub mod safe;
pub mod title;
pub mod tree;
