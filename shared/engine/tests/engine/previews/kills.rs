//! Owners die before and after each step of a run that writes, and also between a write and its result.

use super::{is_sendable, world, write};
use crate::asking::open;
use crate::world::{World, complete, finished};
use cairn_engine::command::Settlement;
use cairn_engine::decide::{Input, Previewed};
use cairn_engine::event::{CallPreview, CallRef, FileState};
use cairn_engine::key::approval_digest;
use cairn_engine::outstanding::Work;
use cairn_engine::session::RunStatus;
use std::collections::BTreeMap;

/// More steps than the run has.
const MOST_STEPS: usize = 40;

/// The digests of files, and the writes that were made.
#[derive(Default)]
struct Disk {
    files: BTreeMap<String, String>,
    writes: Vec<(String, String)>,
}

impl Disk {
    fn preview(&self, call: CallRef) -> CallPreview {
        let path = "src/a".to_owned();
        CallPreview {
            before_digest: self.files.get(&path).cloned().unwrap_or_default(),
            after_digest: format!("after turn {}", call.tool_turn),
            path,
            ..CallPreview::default()
        }
    }

    /// As the tools do it: what is written already is not written again.
    fn invoke(&mut self, preview: &CallPreview) {
        let now = self.files.get(&preview.path).cloned().unwrap_or_default();
        if now == preview.after_digest {
            return;
        }
        assert_eq!(now, preview.before_digest, "a file that was not previewed");
        let (path, after) = (preview.path.clone(), preview.after_digest.clone());
        self.files.insert(path.clone(), after.clone());
        self.writes.push((path, after));
    }
}

/// The next thing that happens. With `is_lost` the owner dies before it learns what came of a write. Returns whether
/// something was left to happen.
fn step(world: &mut World, disk: &mut Disk, is_lost: bool) -> bool {
    if world.run().status == RunStatus::Completed {
        return false;
    }
    if let Some(question) = open(world).first() {
        world.answer(question, Settlement::Approve);
        return true;
    }
    let previews = world.outstanding().into_iter();
    let mut previews = previews.filter_map(|work| match work {
        Work::Preview(call) => Some(call),
        _ => None,
    });
    if let Some(call) = previews.next() {
        let outcome = Previewed::Shown(disk.preview(call));
        world.decide(Input::Previewed { call, outcome });
        return true;
    }
    let attempt = world.attempt(1);
    let running = world.session.attempt(attempt).unwrap();
    let mut calls = running.last_calls(attempt);
    let Some((name, call)) = calls.find(|(_, call)| is_sendable(call)) else {
        drop(calls);
        let turns = running.tool_turns;
        match turns {
            0 | 1 => world.reply(1, "", &[write("src/a")]),
            _ => world.reply(1, "", &[complete("done")]),
        };
        return true;
    };
    let preview = call.preview.as_deref().unwrap();
    let (tool, arguments) = (&call.call.name, &call.call.arguments);
    let digest = approval_digest(tool, &call.tool_digest, arguments, Some(preview));
    assert_eq!(
        call.approval.as_ref(),
        Some(&digest),
        "what is sent was approved"
    );
    disk.invoke(preview);
    let mut result = finished(name, "written", "");
    result.file = Some(FileState {
        path: preview.path.clone(),
        digest: preview.after_digest.clone(),
    });
    drop(calls);
    if !is_lost {
        world.report(1, vec![result]);
    }
    true
}

#[test]
fn each_write_is_made_once_and_as_it_was_approved_whenever_owners_die() {
    let written = |turn: u32| ("src/a".to_owned(), format!("after turn {turn}"));
    for is_lost in [false, true] {
        for killed_at in 0..MOST_STEPS {
            let (mut world, mut disk) = (world(), Disk::default());
            let mut steps = 0;
            while step(&mut world, &mut disk, is_lost && steps == killed_at) {
                if steps == killed_at {
                    world.decide(Input::TakenOver { holder_dead: true });
                    assert_eq!(world.folded(), world.session);
                }
                steps += 1;
                assert!(steps < MOST_STEPS, "killed at {killed_at}");
            }
            assert_eq!(
                disk.writes,
                [written(0), written(1)],
                "killed at {killed_at}"
            );
        }
    }
}

/// The owner after each event of the journal asks for what the one before it had not recorded.
#[test]
fn no_owner_sends_a_write_that_was_not_approved() {
    let (mut world, mut disk) = (world(), Disk::default());
    while step(&mut world, &mut disk, false) {}
    for cut in 1..=world.journal.len() {
        let mut owner = world.clone();
        owner.journal.truncate(cut);
        owner.session = owner.folded();
        if owner.session.runs.last().is_none() {
            continue;
        }
        owner.decide(Input::TakenOver { holder_dead: true });
        let run = owner.session.active_run().into_iter();
        let attempts = run.flat_map(|run| run.running_attempts());
        let calls = attempts.flat_map(|(name, _, attempt)| attempt.last_calls(name));
        for (_, call) in calls.filter(|(_, call)| is_sendable(call)) {
            assert!(
                call.preview.is_some() && call.approval.is_some(),
                "cut at {cut}"
            );
        }
    }
}
