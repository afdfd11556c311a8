//! What is measured.

use crate::RAW_COMMITS;
use crate::support::{chain, model_step, tool_step};
use cairn_model::ModelRegistry;
use cairn_model::recorded::Recorded;
use cairn_proto::event as wire;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) sessions: usize,
    pub(crate) runs: usize,
    pub(crate) run: wire::StartRun,
    /// What is counted: steps, turns or runs of one run.
    pub(crate) units: usize,
    /// Calls of the tool in one run.
    pub(crate) calls: usize,
    /// Transitions of one unit.
    pub(crate) commits: f64,
    /// A client watches each session; else nobody does.
    pub(crate) is_watched: bool,
}

pub(crate) fn cases() -> Vec<Case> {
    let tools = |n: usize| case(1, chain(vec![tool_step("counted"); n]), n, n);
    let turns = |sessions: usize, n: usize| {
        let run = limits(chain(vec![model_step("turns"); n]));
        case(sessions, run, n * 9, n * 8)
    };
    let long = Case {
        runs: RAW_COMMITS / 1008,
        ..tools(1008)
    };
    vec![
        long.named("chain of tool steps, 1 session"),
        tools(1008).watched().named("the same, watched"),
        tools(160)
            .times(64)
            .named("chain of tool steps, 64 sessions"),
        tools(160).times(64).watched().named("the same 64, watched"),
        turns(1, 40).named("agent loop, 1 session"),
        turns(64, 6).named("agent loop, 64 sessions"),
        Case {
            commits: 2.0,
            runs: 20,
            ..tools(1)
                .times(64)
                .watched()
                .named("runs of one step, 64 at once")
        },
    ]
}

fn case(sessions: usize, run: wire::StartRun, units: usize, calls: usize) -> Case {
    Case {
        name: "",
        sessions,
        runs: 1,
        run,
        units,
        calls,
        commits: 1.0,
        is_watched: false,
    }
}

impl Case {
    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn times(self, sessions: usize) -> Self {
        Self { sessions, ..self }
    }

    fn watched(self) -> Self {
        Self {
            is_watched: true,
            ..self
        }
    }
}

fn limits(mut run: wire::StartRun) -> wire::StartRun {
    run.limits = Some(wire::LimitOverrides {
        max_turns: 100_000,
        ..wire::LimitOverrides::default()
    });
    run
}

/// Eight turns with a pure call, and one that ends the step.
pub(crate) fn models() -> ModelRegistry {
    let call = r#"{"tool_calls": [{"name": "counted", "arguments": {}}]}"#;
    let end =
        r#"{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "done"}}]}"#;
    let replies = [vec![call; 8], vec![end]].concat().join(", ");
    let text = format!(r#"{{"match": {{"step": ""}}, "replies": [{replies}]}}"#);
    let mut models = ModelRegistry::new();
    let recorded = Recorded::parse("recorded", &text).expect("a recording");
    models.insert("recorded", Arc::new(recorded));
    models
}
