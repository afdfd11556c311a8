//! The execution tree: what a run did, as goals with what was thought, done and found under them.
//!
//! It is folded from the events of a session. The steps of a plan are goals at the root of their
//! run; everything else has one parent. Ids depend on the place in the run alone, so folding again
//! gives the same tree.
//!
//! | kind | made by | parent |
//! |---|---|---|
//! | goal | a step of the plan, or `step(plan)` for a part of it | none, or the goal of its step |
//! | thought | a reply's text, also beside tool calls | the goal in progress |
//! | action | a tool call | the goal in progress |
//! | result | the call's result | its action |
//! | evaluation | `step(complete)` | the goal that it completes |
//! | response | the answer that ends a run | none |
//!
//! The goal in progress is the sub-goal in focus, else the goal of the step. Calls of `step` count
//! before the other calls of their reply, whose actions belong to the goal that is in progress after
//! them. A call of `step` makes an action only if it was refused.
//!
//! A compaction of the conversation makes no node. What its summary used up counts for the goals, as replies do.

mod fold;
mod infer;

use crate::compactions::Compactions;
use cairn_engine::message::Usage;
use cairn_engine::prompt::describe;
use cairn_engine::session::{RunStatus, StepNo};
use fold::Working;
use std::collections::BTreeMap;

pub use describe::call as describe_call;
pub use infer::infer;

/// The position of a node in [`Tree::nodes`]; it never changes.
pub type NodeIndex = usize;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // Described at the head of this module.
pub enum NodeKind {
    Goal,
    Thought,
    Action,
    Result,
    Evaluation,
    Response,
}

/// How far a node got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeStatus {
    /// Not begun.
    Planned,
    /// Begun.
    InProgress,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Left out, or given up before it ended.
    Skipped,
}

/// One element of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// 16 hexadecimal digits, unique in the session.
    pub id: String,
    /// What it is.
    pub kind: NodeKind,
    /// How far it got.
    pub status: NodeStatus,
    /// From 1 within the run, in the order in which nodes came up.
    pub sequence: u32,
    /// Number of the event that made it.
    pub seq: u64,
    /// The run that it belongs to.
    pub run: u32,
    /// The one parent; none at the root.
    pub parent: Option<NodeIndex>,
    /// In the order in which they came up.
    pub children: Vec<NodeIndex>,
    /// One line that says what it is about.
    pub description: String,
    /// What belongs to it in full, by name.
    pub data: Vec<(&'static str, String)>,
    /// Of evaluations only: the text, whole.
    pub summary: Option<String>,
    /// Goals: from begin to end. Actions: of the call. Others: of the model's reply.
    pub duration_ms: Option<u64>,
    /// Tokens in and out. Goals: of all replies under them, and of summaries. Others: of the reply that they came
    /// with, at the first node that it made.
    pub tokens: Option<u64>,
    /// Price in 10⁻⁹ US dollars, counted like the tokens.
    pub cost_nano_usd: Option<u64>,
    /// Milliseconds since 1970.
    pub created_at: u64,
    began_at: Option<u64>,
}

/// A run as the root of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRoot {
    /// Number of the run.
    pub number: u32,
    /// Its goal.
    pub task: String,
    /// Name of its agent; empty for the default agent without skills and instructions.
    pub agent: String,
    /// What it is doing.
    pub status: RunStatus,
    /// The telemetry trace of the run; empty when there is none.
    pub trace_id: String,
    /// Goals of the plan in its order, then those that it dropped, and the response.
    pub roots: Vec<NodeIndex>,
    /// How many nodes it has.
    pub nodes: u32,
    /// What planning, all replies and summaries used up.
    pub usage: Usage,
    /// Milliseconds since 1970.
    pub started_at: u64,
    /// Milliseconds since 1970; none while it is active.
    pub ended_at: Option<u64>,
    /// The goal of each step that it has had, by number.
    steps: BTreeMap<StepNo, NodeIndex>,
}

/// The execution trees of a session, one for each run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
    runs: BTreeMap<u32, RunRoot>,
    working: BTreeMap<(u32, StepNo), Working>,
    /// What was said in turns that have not begun, by the seq of their commands.
    waiting_turns: BTreeMap<u64, String>,
    compactions: Compactions,
}

impl Tree {
    /// All nodes of all runs, in the order in which they came up.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The runs by number.
    pub fn runs(&self) -> impl Iterator<Item = &RunRoot> {
        self.runs.values()
    }

    /// The run of that number.
    pub fn run(&self, number: u32) -> Option<&RunRoot> {
        self.runs.get(&number)
    }

    /// The goal of the step of that number.
    pub fn step(&self, run: u32, step: StepNo) -> Option<NodeIndex> {
        self.runs.get(&run)?.steps.get(&step).copied()
    }

    /// A node and all its descendants in the order of the tree, each with its depth below the node.
    pub fn walk(&self, top: NodeIndex) -> impl Iterator<Item = (usize, &Node)> {
        let mut stack = vec![(0, top)];
        std::iter::from_fn(move || {
            let (depth, here) = stack.pop()?;
            let node = self.nodes.get(here)?;
            let children = node.children.iter().rev();
            stack.extend(children.map(|&child| (depth + 1, child)));
            Some((depth, node))
        })
    }
}

impl NodeKind {
    /// Its name in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Thought => "thought",
            Self::Action => "action",
            Self::Result => "result",
            Self::Evaluation => "evaluation",
            Self::Response => "response",
        }
    }
}

impl NodeStatus {
    /// Its name in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// Its mark in lists.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Planned => " ",
            Self::InProgress => "→",
            Self::Completed => "✓",
            Self::Failed => "✗",
            Self::Skipped => "-",
        }
    }
}

impl Node {
    /// What belongs to it under that name.
    pub fn datum(&self, name: &str) -> Option<&str> {
        let found = self.data.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str())
    }
}
