//! The one step of each run, which lasts until the proof ends it.

use crate::support::served::{add_model, done};
use crate::support::{chain, model_step, tool_step};
use cairn_proto::event::StartRun;
use cairn_testkit::{ModelServer, Site};
use std::sync::{Arc, Condvar, Mutex};

/// A tool that waits for a file.
const TOOL: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits until it is opened."
argv = ["sh", "-c", "until [ -e open ]; do sleep 0.2; done; echo opened"]
effect = "pure"
time_limit_ms = 3600000
parameters = { type = "object" }
"#;
/// The file.
const OPEN: &str = "open";
/// Calls of the tool at the same time: each is a process.
const FEW_ATTEMPTS: (&str, &str) = ("CAIRN_EXECUTOR__MAX_ATTEMPTS", "4");
/// A model may be silent for as long as the proof takes, and takes all that a session remembers. The lines
/// belong to the section of the model.
const PATIENT: &str = r#"
first_byte_timeout = "1h"
idle_timeout = "1h"
total_timeout = "1h"
window_tokens = 1000000
"#;

/// What the steps wait for.
pub(super) enum Work {
    Tool,
    Model(Arc<Gate>),
}

impl Work {
    /// Adds the tool or the model to the settings of the site.
    pub(super) fn set_up(site: &Site, is_for_model: bool) -> Self {
        if !is_for_model {
            site.append("cairn.toml", TOOL);
            return Self::Tool;
        }
        let gate = Arc::new(Gate::default());
        let before_answers = gate.clone();
        let model = ModelServer::start(move |_| {
            before_answers.pass();
            done("It is done.")
        });
        add_model(site, &model);
        site.append("cairn.toml", PATIENT);
        Self::Model(gate)
    }

    /// More settings of the process.
    pub(super) fn variables(&self) -> Option<(&'static str, &'static str)> {
        matches!(self, Self::Tool).then_some(FEW_ATTEMPTS)
    }

    /// The run for each session.
    pub(super) fn run(&self) -> StartRun {
        chain(vec![match self {
            Self::Tool => tool_step("gate"),
            Self::Model(_) => model_step("wait"),
        }])
    }

    /// From now on all steps end.
    pub(super) fn end(&self, site: &Site) {
        match self {
            Self::Tool => site.write(OPEN, ""),
            Self::Model(gate) => gate.open(),
        }
    }
}

/// Blocks the threads that come to it until it is open.
#[derive(Debug, Default)]
pub(super) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let is_open = self.is_open.lock().expect("no panic");
        let passed = self.opened.wait_while(is_open, |is_open| !*is_open);
        drop(passed.expect("no panic"));
    }

    fn open(&self) {
        *self.is_open.lock().expect("no panic") = true;
        self.opened.notify_all();
    }
}
