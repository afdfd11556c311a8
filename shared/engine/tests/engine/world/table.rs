//! The table of revisions: for every kind of change and every status of a run, what becomes of each
//! step, written down by hand. Plans and fates are in the notation of `world/notation.rs`.
//!
//! The engine is held to it, and the services over each store.

/// A kind of change.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) before: &'static str,
    pub(crate) after: &'static str,
    /// While the run is running, waiting or paused.
    pub(crate) busy: &'static str,
    /// After it completed.
    pub(crate) completed: &'static str,
    /// After it failed or was cancelled; `2!` is then the step that failed or was stopped.
    pub(crate) stopped: &'static str,
}

const fn row(
    name: &'static str,
    [before, after]: [&'static str; 2],
    [busy, completed, stopped]: [&'static str; 3],
) -> Row {
    Row {
        name,
        before,
        after,
        busy,
        completed,
        stopped,
    }
}

const CHAIN: &str = "a b c d";

/// Busy: step 1 is done, step 2 runs, 3 and 4 wait. Stopped: step 2 ended badly.
#[rustfmt::skip]
pub(crate) const CHAINS: [Row; 17] = [
    row("nothing", [CHAIN, "a b c d"],
        ["1d 2r 3p 4p", "1d 2d 3d 4d", "1d 5n 3p 4p | 2!"]),
    row("append", [CHAIN, "a b c d e"],
        ["1d 2r 3p 4p 5n", "1d 2d 3d 4d 5n", "1d 5n 3p 4p 6n | 2!"]),
    row("insert", [CHAIN, "a x b c d"],
        ["1d 5n 6n 7n 8n | 2s 3p 4p", "1d 5n 6n 7n 8n | 2d 3d 4d", "1d 5n 6n 7n 8n | 2! 3p 4p"]),
    row("insert at the front", [CHAIN, "x a b c d"],
        ["5n 6n 7n 8n 9n | 1d 2s 3p 4p", "5n 6n 7n 8n 9n | 1d 2d 3d 4d", "5n 6n 7n 8n 9n | 1d 2! 3p 4p"]),
    row("remove", [CHAIN, "a c d"],
        ["1d 5n 6n | 2s 3p 4p", "1d 5n 6n | 2d 3d 4d", "1d 5n 6n | 2! 3p 4p"]),
    row("remove the end", [CHAIN, "a b"],
        ["1d 2r | 3p 4p", "1d 2d | 3d 4d", "1d 5n | 2! 3p 4p"]),
    row("reword", [CHAIN, "a b c~ d"],
        ["1d 2r 5n 6n | 3p 4p", "1d 2d 5n 6n | 3d 4d", "1d 5n 6n 7n | 2! 3p 4p"]),
    row("reorder", [CHAIN, "a b d c"],
        ["1d 2r 5n 6n | 3p 4p", "1d 2d 5n 6n | 3d 4d", "1d 5n 6n 7n | 2! 3p 4p"]),
    row("split", [CHAIN, "a b c1 c2 d"],
        ["1d 2r 5n 6n 7n | 3p 4p", "1d 2d 5n 6n 7n | 3d 4d", "1d 5n 6n 7n 8n | 2! 3p 4p"]),
    row("merge", [CHAIN, "a bc d"],
        ["1d 5n 6n | 2s 3p 4p", "1d 5n 6n | 2d 3d 4d", "1d 5n 6n | 2! 3p 4p"]),
    row("arguments of a tool", ["a b t=1 d", "a b t=2 d"],
        ["1d 2r 5n 6n | 3p 4p", "1d 2d 5n 6n | 3d 4d", "1d 5n 6n 7n | 2! 3p 4p"]),
    row("order, with the same dependencies", [CHAIN, "g: a b<a c<b d<c"],
        ["1d 2r 3p 4p", "1d 2d 3d 4d", "1d 5n 3p 4p | 2!"]),
    row("order, without dependencies", [CHAIN, "g: a b c d"],
        ["1d 5n 6n 7n | 2s 3p 4p", "1d 5n 6n 7n | 2d 3d 4d", "1d 5n 6n 7n | 2! 3p 4p"]),
    row("duplicates, one more", ["a b x:a y:b", "a b x:a y:b z:a"],
        ["1d 2r 3p 4p 5n", "1d 2d 3d 4d 5n", "1d 5n 3p 4p 6n | 2!"]),
    row("duplicates, one less", ["a x:a y:a z:a", "a x:a y:a"],
        ["1d 2r 3p | 4p", "1d 2d 3d | 4d", "1d 5n 3p | 2! 4p"]),
    row("redo", [CHAIN, "a*1 b c d"],
        ["5n 6n 7n 8n | 1d 2s 3p 4p", "5n 6n 7n 8n | 1d 2d 3d 4d", "5n 6n 7n 8n | 1d 2! 3p 4p"]),
    row("everything", [CHAIN, "w x y z"],
        ["5n 6n 7n 8n | 1d 2s 3p 4p", "5n 6n 7n 8n | 1d 2d 3d 4d", "5n 6n 7n 8n | 1d 2! 3p 4p"]),
];

const GRAPH: &str = "g: a b c<a d<b,c";

/// Busy: step 1 is done, steps 2 and 3 run, 4 waits. Stopped: step 3 is done, step 2 ended badly.
#[rustfmt::skip]
pub(crate) const GRAPHS: [Row; 16] = [
    row("nothing", [GRAPH, GRAPH],
        ["1d 2r 3r 4p", "1d 2d 3d 4d", "1d 5n 3d 4p | 2!"]),
    row("append", [GRAPH, "g: a b c<a d<b,c e<d"],
        ["1d 2r 3r 4p 5n", "1d 2d 3d 4d 5n", "1d 5n 3d 4p 6n | 2!"]),
    row("insert", [GRAPH, "g: a x<a b c<a d<b,c,x"],
        ["1d 5n 2r 3r 6n | 4p", "1d 5n 2d 3d 6n | 4d", "1d 5n 6n 3d 7n | 2! 4p"]),
    row("insert beside", [GRAPH, "g: x a b c<a d<b,c"],
        ["5n 1d 2r 3r 4p", "5n 1d 2d 3d 4d", "5n 1d 6n 3d 4p | 2!"]),
    row("remove", [GRAPH, "g: a b d<b"],
        ["1d 2r 5n | 3s 4p", "1d 2d 5n | 3d 4d", "1d 5n 6n | 2! 3d 4p"]),
    row("reword", [GRAPH, "g: a b c~<a d<b,c"],
        ["1d 2r 5n 6n | 3s 4p", "1d 2d 5n 6n | 3d 4d", "1d 5n 6n 7n | 2! 3d 4p"]),
    row("reorder", [GRAPH, "g: d<b,c c<a b a"],
        ["4p 3r 2r 1d", "4d 3d 2d 1d", "4p 3d 5n 1d | 2!"]),
    row("split", [GRAPH, "g: a b1 b2 c<a d<b1,b2,c"],
        ["1d 5n 6n 3r 7n | 2s 4p", "1d 5n 6n 3d 7n | 2d 4d", "1d 5n 6n 3d 7n | 2! 4p"]),
    row("merge", [GRAPH, "g: a bc<a d<bc"],
        ["1d 5n 6n | 2s 3s 4p", "1d 5n 6n | 2d 3d 4d", "1d 5n 6n | 2! 3d 4p"]),
    row("dependency", [GRAPH, "g: a b c d<b,c"],
        ["1d 2r 5n 6n | 3s 4p", "1d 2d 5n 6n | 3d 4d", "1d 5n 6n 7n | 2! 3d 4p"]),
    row("dependency of the last", [GRAPH, "g: a b c<a d<b"],
        ["1d 2r 3r 5n | 4p", "1d 2d 3d 5n | 4d", "1d 5n 3d 6n | 2! 4p"]),
    row("arguments of a tool", ["g: a b t=1<a d<b,t", "g: a b t=2<a d<b,t"],
        ["1d 2r 5n 6n | 3s 4p", "1d 2d 5n 6n | 3d 4d", "1d 5n 6n 7n | 2! 3d 4p"]),
    row("order", [GRAPH, "a b c d"],
        ["1d 5n 6n 7n | 2s 3s 4p", "1d 5n 6n 7n | 2d 3d 4d", "1d 5n 6n 7n | 2! 3d 4p"]),
    row("duplicates", ["g: a x:a y:a d<a,x,y", "g: a x:a d<a,x"],
        ["1d 2r 5n | 3s 4p", "1d 2d 5n | 3d 4d", "1d 3d 5n | 2! 4p"]),
    row("redo", [GRAPH, "g: a*1 b c<a d<b,c"],
        ["5n 2r 6n 7n | 1d 3s 4p", "5n 2d 6n 7n | 1d 3d 4d", "5n 6n 7n 8n | 1d 2! 3d 4p"]),
    row("everything", [GRAPH, "g: w x y z"],
        ["5n 6n 7n 8n | 1d 2s 3s 4p", "5n 6n 7n 8n | 1d 2d 3d 4d", "5n 6n 7n 8n | 1d 2! 3d 4p"]),
];

/// The statuses of a run that has a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stage {
    Running,
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

pub(crate) const STAGES: [Stage; 6] = [
    Stage::Running,
    Stage::Waiting,
    Stage::Paused,
    Stage::Completed,
    Stage::Failed,
    Stage::Cancelled,
];

impl Row {
    /// What becomes of each step at that stage.
    pub(crate) fn fates(&self, stage: Stage) -> String {
        match stage {
            Stage::Running | Stage::Waiting | Stage::Paused => self.busy.to_owned(),
            Stage::Completed => self.completed.to_owned(),
            Stage::Failed => self.stopped.replace('!', "f"),
            Stage::Cancelled => self.stopped.replace('!', "s"),
        }
    }
}
