//! The trees of both runs, written by hand.

use cairn_proto::orchestrator::{NodeKind as K, NodeStatus as S};

/// Depth, kind, status, description, tokens, cost in billionths of a dollar.
pub(crate) type Row = (usize, K, S, &'static str, u64, u64);

const FIND: &str = "search_files(path=docs, pattern=Redis)";
const FOUND: &str = "docs/one.md:2:\tRedis is a store.";
const READ: &str = "read_file(path=docs/one.md, from_line=1, to_line=2)";
const LISTED: &str = "docs/one.md\t38\t3\ttext";
const NOWHERE: &str =
    "ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is";
const ANSWER: &str = "Two lines name Redis: docs/one.md:2 and docs/two.md:3.";
const SET: &str = "session_memory_set(key=seen, value=docs/one.md)";

#[rustfmt::skip]
pub(crate) const FIRST: [Row; 27] = [
    (0, K::Goal, S::Completed, "Survey", 2860, 7_500_000),
    (1, K::Thought, S::Completed, "I split this.", 230, 2_000_000),
    (1, K::Goal, S::Completed, "List the files", 750, 3_500_000),
    (2, K::Action, S::Completed, "list_files(docs)", 340, 3_000_000),
    (3, K::Result, S::Completed, LISTED, 0, 0),
    (2, K::Action, S::Failed, "read_file(nowhere.md)", 0, 0),
    (3, K::Result, S::Failed, NOWHERE, 0, 0),
    (2, K::Evaluation, S::Completed, "Two files.", 410, 500_000),
    (1, K::Goal, S::Completed, "Read the first", 1170, 1_000_000),
    (2, K::Action, S::Completed, READ, 550, 0),
    (3, K::Result, S::Completed, "docs/one.md lines 1-2 of 3", 0, 0),
    (2, K::Action, S::Completed, "scratchpad(docs/one.md names Redis)", 0, 0),
    (3, K::Result, S::Completed, "notes: 23 bytes", 0, 0),
    (2, K::Action, S::Completed, SET, 0, 0),
    (3, K::Result, S::Completed, "'seen' is set", 0, 0),
    (2, K::Thought, S::Completed, "All parts are done.", 620, 1_000_000),
    (2, K::Evaluation, S::Completed, "One mention.", 0, 0),
    (1, K::Evaluation, S::Completed, "docs holds two files.", 710, 1_000_000),
    (0, K::Goal, S::Completed, "Find", 0, 0),
    (1, K::Action, S::Completed, FIND, 0, 0),
    (2, K::Result, S::Completed, FOUND, 0, 0),
    (0, K::Goal, S::Completed, "Tell", 2790, 9_000_000),
    (1, K::Thought, S::Completed, "Redis is named twice.", 840, 4_000_000),
    (1, K::Action, S::Completed, "record(two mentions)", 930, 0),
    (2, K::Result, S::Completed, r#"recorded {"what":"two mentions"}"#, 0, 0),
    (1, K::Evaluation, S::Completed, ANSWER, 1020, 5_000_000),
    (0, K::Response, S::Completed, ANSWER, 0, 0),
];

#[rustfmt::skip]
pub(crate) const SECOND: [Row; 7] = [
    (0, K::Goal, S::Completed, "list_files", 0, 0),
    (1, K::Action, S::Completed, "list_files(docs)", 0, 0),
    (2, K::Result, S::Completed, LISTED, 0, 0),
    (0, K::Goal, S::Failed, "read_file", 0, 0),
    (1, K::Action, S::Failed, "read_file(nowhere.md)", 0, 0),
    (2, K::Result, S::Failed, NOWHERE, 0, 0),
    (0, K::Goal, S::Planned, "record", 0, 0),
];
