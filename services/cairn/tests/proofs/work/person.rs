//! A person who submits the turn, reads each question, and approves what is shown if it is what the model asked
//! for. A question about a command of unknown outcome is answered by the marks that the command left.

use super::WORKSPACE;
use super::diff;
use super::script::{self, Mark};
use super::task::{Task, replaced};
use crate::support::place::Place;
use crate::support::served::SESSION;
use crate::support::{Client, connect};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::event::settlement::{Approve, Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_testkit::Site;
use pb::turn_event::Event;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tonic::Status;

/// Longer than a command of unknown outcome waits until it can no longer be running.
const PATIENCE: Duration = Duration::from_secs(300);

/// Keeps its answers over restarts of the server.
#[derive(Debug, Default)]
pub(crate) struct Person {
    cursor: u64,
    /// The answer to each question; a retry sends the same.
    answers: BTreeMap<String, Outcome>,
    /// Questions whose answer the server acknowledged.
    acknowledged: BTreeSet<String>,
    /// The broken file as the last preview showed it.
    shown: Option<String>,
    /// How often a command that had begun may begin again, by its number.
    pub(crate) leaves: BTreeMap<usize, usize>,
    pub(crate) approvals: usize,
    pub(crate) doubts: usize,
    pub(crate) response: String,
    pub(crate) has_ended: bool,
}

impl Person {
    /// Submits the turn, or continues its stream, and answers its questions, until the turn ends or the server
    /// is gone.
    pub(crate) async fn go_on(&mut self, place: &Place, task: &Task) -> Result<(), Status> {
        let mut client = connect(place.address());
        let request = pb::CreateSessionRequest {
            session: SESSION.to_owned(),
            request_id: "create".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        client.create_session(request).await?;
        let mut stream = client.submit_turn(turn(self.cursor)).await?.into_inner();
        // The turn may have waited before this stream began.
        self.answer(&place.site, task, &mut client).await?;
        while !self.has_ended {
            let message = tokio::time::timeout(PATIENCE, stream.message()).await;
            let message = message.expect("an event in time")?;
            let message = message.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            self.cursor = self.cursor.max(message.seq);
            for event in message.events.into_iter().filter_map(|it| it.event) {
                match event {
                    Event::Waiting(_) => self.answer(&place.site, task, &mut client).await?,
                    Event::Error(error) => panic!("{error:?}"),
                    Event::Complete(complete) => {
                        self.has_ended = true;
                        self.response = complete.response;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Answers what is open, and again what the server has not acknowledged.
    async fn answer(
        &mut self,
        site: &Site,
        task: &Task,
        client: &mut Client,
    ) -> Result<(), Status> {
        let request = pb::ListPendingRequest {
            session: SESSION.to_owned(),
            ..pb::ListPendingRequest::default()
        };
        for open in client.list_pending(request).await?.into_inner().pending {
            assert!(
                open.answered || !self.acknowledged.contains(&open.id),
                "it was answered, and is asked again: {open:?}"
            );
            if !self.answers.contains_key(&open.id) {
                let answer = self.decide(site, task, &open);
                self.answers.insert(open.id.clone(), answer);
            }
        }
        for (id, outcome) in self.answers.clone() {
            if self.acknowledged.contains(&id) {
                continue;
            }
            let request = pb::DecideRequest {
                session: SESSION.to_owned(),
                request_id: format!("decide-{id}"),
                pending_id: id.clone(),
                settlement: Some(wire::Settlement {
                    outcome: Some(outcome),
                }),
            };
            client.decide(request).await?;
            self.acknowledged.insert(id);
        }
        Ok(())
    }

    /// The answer to a question that is new.
    fn decide(&mut self, site: &Site, task: &Task, open: &pb::Pending) -> Outcome {
        match (open.reason(), open.tool.as_str()) {
            (wire::WaitReason::Approval, "edit_file") => self.check_edit(site, task, open),
            (wire::WaitReason::Approval, "shell_exec") => self.check_command(site, task, open),
            (wire::WaitReason::InDoubt, "shell_exec") => return self.settle(site, task, open),
            _ => panic!("the work asks nothing else: {open:?}"),
        }
        self.approvals += 1;
        Outcome::Approve(Approve {})
    }

    /// Panics unless the preview makes of the file what the arguments make of it.
    fn check_edit(&mut self, site: &Site, task: &Task, open: &pb::Pending) {
        let preview = open.preview.as_ref().expect("a preview");
        assert_eq!(preview.path, task.path, "the file of the preview");
        assert!(!preview.is_protected, "{preview:?}");
        let before = fs::read_to_string(file(site, task)).expect("the broken file");
        let arguments = arguments(open);
        let text = |name: &str| arguments[name].as_str().expect("a text").to_owned();
        assert_eq!(text("path"), task.path);
        let after = replaced(&before, &text("old"), &text("new"));
        let shown = diff::apply(&before, &preview.diff);
        let (shown, added, removed) = shown.unwrap_or_else(|why| panic!("{why}: {preview:?}"));
        assert_eq!(shown, after, "what is shown is what is asked for");
        let counted = (preview.added, preview.removed);
        assert_eq!(counted, (added, removed), "the lines of the preview");
        self.shown = Some(shown);
    }

    /// Panics unless the command is the one that the model asked for, in the workspace and confined, and the
    /// edit before it made what was shown.
    fn check_command(&self, site: &Site, task: &Task, open: &pb::Pending) {
        let number = script::number_of(task.runner, &open.command);
        assert_eq!(open.command, arguments(open)["command"], "the command");
        let workspace = site.path().join(WORKSPACE).canonicalize();
        let workspace = workspace.expect("the workspace").display().to_string();
        let folders = ["", ".", workspace.as_str()];
        assert!(folders.contains(&open.folder.as_str()), "{open:?}");
        assert!(open.opens.starts_with("confined"), "{open:?}");
        let mark = Mark::read(&site.path().join(WORKSPACE), number);
        assert_eq!(mark.starts, 0, "it begins before its approval: {open:?}");
        let found = fs::read_to_string(file(site, task)).expect("the edited file");
        assert_eq!(Some(&found), self.shown.as_ref(), "what was shown was done");
    }

    /// The answer about a command of unknown outcome, by its marks.
    fn settle(&mut self, site: &Site, task: &Task, open: &pb::Pending) -> Outcome {
        self.doubts += 1;
        let arguments = arguments(open);
        let command = arguments["command"].as_str().expect("a command");
        let number = script::number_of(task.runner, command);
        let mark = Mark::read(&site.path().join(WORKSPACE), number);
        match mark.output {
            Some(output) => Outcome::Done(Done { output }),
            None => {
                // Tests that began may run again; tests that did not begin need no leave.
                *self.leaves.entry(number).or_default() += mark.starts.min(1);
                Outcome::Retry(Retry {})
            }
        }
    }
}

/// The request for the turn.
fn turn(after_seq: u64) -> pb::SubmitTurnRequest {
    let message = Message::user("A test fails. Mend it.");
    pb::SubmitTurnRequest {
        session: SESSION.to_owned(),
        request_id: "turn".to_owned(),
        turn: Some(wire::SubmitTurn {
            message: Some(message.into()),
            answers_questions: true,
            ..wire::SubmitTurn::default()
        }),
        after_seq,
    }
}

fn arguments(open: &pb::Pending) -> Value {
    serde_json::from_str(&open.arguments_json).expect("arguments are JSON")
}

/// The broken file.
fn file(site: &Site, task: &Task) -> PathBuf {
    site.path().join(WORKSPACE).join(&task.path)
}
