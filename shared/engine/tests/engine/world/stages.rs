//! Runs of four steps at each stage of the table of revisions.

use super::World;
use super::notation::plan;
use super::table::Stage;
use super::words::send;
use cairn_engine::command::{self, Command, RevisePlan, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::pending::pending;
use cairn_engine::session::RunStatus;

/// A run of four steps at that stage.
pub(crate) fn at(stage: Stage, before: &str) -> World {
    let mut world = World::with_plan(plan(before));
    world.end(1);
    match stage {
        Stage::Running => {}
        Stage::Waiting => {
            world.reply(2, "", &[send()]);
            let attempt = world.attempt(2);
            world.decide(Input::AttemptLost { attempt });
        }
        Stage::Paused => drop(world.command(pause())),
        Stage::Completed => {
            (2..=4).for_each(|step| world.end(step));
        }
        Stage::Failed | Stage::Cancelled => {
            if before.starts_with("g:") {
                world.end(3);
            }
            if stage == Stage::Failed {
                world.fail(2, Failure::new(FailureKind::Llm, "Refused", "no"));
            } else {
                world.command(cancel());
            }
        }
    }
    world
}

pub(crate) fn pause() -> Command {
    Command::PauseRun(command::PauseRun {
        run: 1,
        reason: String::new(),
    })
}

fn cancel() -> Command {
    Command::CancelRun(command::CancelRun {
        run: 1,
        reason: String::new(),
    })
}

pub(crate) fn apply(text: &str) -> Command {
    Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(plan(text)),
        apply: true,
        ..RevisePlan::default()
    })
}

impl World {
    /// Ends a running step well, whatever it is.
    pub(crate) fn end(&mut self, step: u32) {
        let name = self.attempt(step);
        let is_tool_step = self.session.step(name).unwrap().plan.tool.is_some();
        if is_tool_step {
            self.result(step, 0, "an output");
        } else {
            self.complete(step, "it is done");
        }
    }

    /// Resumes, answers and ends whatever there is, until the run has ended.
    pub(crate) fn finish(&mut self) {
        if self.run().status == RunStatus::Paused {
            self.command(Command::ResumeRun(command::ResumeRun { run: 1 }));
        }
        self.now += 1_000_000;
        for open in pending(&self.session) {
            let output = "a person saw it".to_owned();
            self.answer(&open.id().to_string(), Settlement::Done { output });
        }
        while let Some(&step) = self.running().first() {
            self.end(step);
        }
    }
}
