//! One row of the table at one stage.

use super::plan::plan;
use super::script::{Outcome, Script};
use super::table::{Row, Stage};
use crate::support::Client;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Outcome as Settled, Retry};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::StepStatus;
use cairn_proto::orchestrator::apply_plan_request::Change;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tonic::Streaming;

/// Steps before the change.
const KNOWN: u32 = 4;
/// Nothing that is waited for takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Case {
    /// Its session and the goal of its run.
    name: String,
    row: &'static Row,
    stage: Stage,
    client: Client,
    script: Arc<Script>,
}

impl Case {
    pub(crate) fn new(
        number: usize,
        row: &'static Row,
        stage: Stage,
        client: Client,
        script: Arc<Script>,
    ) -> Self {
        let name = format!("{number}-{stage:?}-{}", row.name);
        let name = name.replace([' ', ','], "-").to_lowercase();
        Self {
            name,
            row,
            stage,
            client,
            script,
        }
    }

    pub(crate) async fn check(mut self) {
        self.reach().await;
        self.script.hold(&self.name);
        let diff = self.revise().await;
        let expected = self.row.fates(self.stage);
        let current = self.current().await;
        let dropped = dropped(&diff);
        let fates = match dropped.is_empty() {
            true => current.join(" "),
            false => format!("{} | {}", current.join(" "), dropped.join(" ")),
        };
        assert_eq!(fates, expected, "{}", self.name);
        self.finish(&current, &dropped).await;
    }

    /// Brings a run of the plan before to the stage.
    async fn reach(&mut self) {
        self.start().await;
        let mut watch = self.watch().await;
        let is_graph = self.row.before.starts_with("g:");
        if self.stage == Stage::Completed {
            self.script.say_all(&self.name);
            return self.until(&mut watch, is_completed).await;
        }
        self.say(1, Outcome::Ends);
        let (mut running, wanted) = (BTreeSet::new(), if is_graph { 3 } else { 2 });
        let mut is_done = false;
        while !is_done || (2..=wanted).any(|step| !running.contains(&step)) {
            let kind = self.next(&mut watch).await;
            is_done |= completed(&kind) == Some(1);
            running.extend(started(&kind));
        }
        match self.stage {
            Stage::Running | Stage::Completed => {}
            Stage::Waiting => {
                self.say(2, Outcome::Thought);
                let is_waiting = |kind: &Kind| matches!(kind, Kind::RunWaiting(_));
                self.until(&mut watch, is_waiting).await;
            }
            Stage::Paused => self.pause().await,
            Stage::Failed | Stage::Cancelled => {
                if is_graph {
                    self.say(3, Outcome::Ends);
                    self.until(&mut watch, |kind| completed(kind) == Some(3))
                        .await;
                }
                if self.stage == Stage::Cancelled {
                    return self.cancel().await;
                }
                self.say(2, Outcome::Fails);
                self.until(&mut watch, |kind| matches!(kind, Kind::RunFailed(_)))
                    .await;
            }
        }
    }

    fn say(&self, place: u32, outcome: Outcome) {
        self.script.say(&self.name, place, outcome);
    }

    /// The run may take as many turns as it takes to wait for more at that stage.
    async fn start(&mut self) {
        let request = pb::CreateSessionRequest {
            session: self.name.clone(),
            request_id: "create".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        self.client
            .create_session(request)
            .await
            .expect("a session");
        let run = wire::StartRun {
            goal: self.name.clone(),
            plan: Some(plan(self.row.before).into()),
            limits: Some(wire::LimitOverrides {
                max_turns: if self.stage == Stage::Waiting { 2 } else { 0 },
                ..wire::LimitOverrides::default()
            }),
            ..wire::StartRun::default()
        };
        let request = pb::StartRunRequest {
            session: self.name.clone(),
            request_id: "start".to_owned(),
            run: Some(run),
            ..pb::StartRunRequest::default()
        };
        self.client.start_run(request).await.expect("a run");
    }

    async fn pause(&mut self) {
        let request = pb::PauseRunRequest {
            session: self.name.clone(),
            request_id: "pause".to_owned(),
            ..pb::PauseRunRequest::default()
        };
        self.client.pause_run(request).await.expect("it is running");
    }

    async fn cancel(&mut self) {
        let request = pb::CancelRunRequest {
            session: self.name.clone(),
            request_id: "cancel".to_owned(),
            ..pb::CancelRunRequest::default()
        };
        self.client.cancel_run(request).await.expect("it is active");
    }

    async fn revise(&mut self) -> pb::PlanDiff {
        let request = pb::ApplyPlanRequest {
            session: self.name.clone(),
            request_id: "apply".to_owned(),
            expected_revision: 1,
            change: Some(Change::Plan(plan(self.row.after).into())),
            ..pb::ApplyPlanRequest::default()
        };
        let answer = self.client.apply_plan(request).await;
        let answer = answer.unwrap_or_else(|status| panic!("{}: {status:?}", self.name));
        let answer = answer.into_inner();
        assert_eq!(answer.revision, 2, "{}", self.name);
        answer.diff.expect("a diff")
    }

    /// The fates of the steps of the plan in force.
    async fn current(&mut self) -> Vec<String> {
        let request = pb::GetPlanRequest {
            session: self.name.clone(),
            run: 1,
            ..pb::GetPlanRequest::default()
        };
        let plan = self.client.get_plan(request).await.expect("a plan");
        let steps = plan.into_inner().steps.into_iter();
        steps.map(|step| fate(step.number, step.status())).collect()
    }

    /// Lets everything end: what has not begun is begun, once, and nothing else is.
    async fn finish(&mut self, current: &[String], dropped: &[String]) {
        self.script.say_all(&self.name);
        if self.stage == Stage::Paused {
            let request = pb::ResumeRunRequest {
                session: self.name.clone(),
                request_id: "resume".to_owned(),
                ..pb::ResumeRunRequest::default()
            };
            self.client.resume_run(request).await.expect("it is paused");
        }
        let mut watch = self.watch().await;
        let is_second = |kind: &Kind| matches!(kind, Kind::PlanApplied(it) if it.revision == 2);
        let (mut begun, mut skipped) = (BTreeSet::new(), BTreeSet::new());
        let mut is_new = false;
        loop {
            let kind = self.next(&mut watch).await;
            is_new |= is_second(&kind);
            match &kind {
                Kind::StepSkipped(it) if it.reason == "superseded" => {
                    assert!(skipped.insert(it.step), "{}", self.name);
                }
                Kind::StepStarted(_) if is_new => {
                    let step = started(&kind).expect("a step");
                    assert!(begun.insert(step), "{}: step {step} began twice", self.name);
                }
                Kind::RunWaiting(_) => self.raise().await,
                Kind::RunCompleted(_) if is_new => break,
                Kind::RunFailed(failed) if is_new => panic!("{}: {failed:?}", self.name),
                _ => {}
            }
        }
        let open = current.iter().filter(|fate| fate.ends_with(['n', 'p']));
        assert_eq!(begun, numbers(open), "{}", self.name);
        let stopped = dropped.iter().filter(|fate| fate.ends_with('s'));
        let stopped = numbers(stopped);
        let is_cancelled = self.stage == Stage::Cancelled;
        assert!(
            is_cancelled || skipped == stopped,
            "{}: {skipped:?}",
            self.name
        );
        let after = self.current().await;
        // New steps keep their marks, for they are known by their numbers.
        let all_done = after.iter().all(|fate| fate.ends_with(['d', 'n']));
        assert!(all_done, "{}: {after:?}", self.name);
        assert!(
            numbers(&after) == numbers(current),
            "{}: {after:?}",
            self.name
        );
    }

    /// The run may take more turns. What it waited for may have been given already.
    async fn raise(&mut self) {
        let request = pb::ListPendingRequest {
            session: self.name.clone(),
            ..pb::ListPendingRequest::default()
        };
        let open = self.client.list_pending(request).await.expect("questions");
        for open in open.into_inner().pending {
            let request = pb::DecideRequest {
                session: self.name.clone(),
                request_id: format!("decide-{}", open.id),
                pending_id: open.id,
                settlement: Some(wire::Settlement {
                    outcome: Some(Settled::Retry(Retry {})),
                }),
            };
            self.client.decide(request).await.expect("it is open");
        }
    }

    async fn watch(&mut self) -> Streaming<pb::WatchSessionResponse> {
        let request = pb::WatchSessionRequest {
            session: self.name.clone(),
            ..pb::WatchSessionRequest::default()
        };
        let watch = self.client.watch_session(request).await;
        watch.expect("a watch").into_inner()
    }

    async fn next(&self, watch: &mut Streaming<pb::WatchSessionResponse>) -> Kind {
        loop {
            let message = tokio::time::timeout(PATIENCE, watch.message()).await;
            let message = message.unwrap_or_else(|_| panic!("{} hangs", self.name));
            let message = message.expect("an event").expect("more");
            if let Some(kind) = message.event.and_then(|event| event.kind) {
                return kind;
            }
        }
    }

    async fn until(
        &self,
        watch: &mut Streaming<pb::WatchSessionResponse>,
        is_wanted: impl Fn(&Kind) -> bool,
    ) {
        while !is_wanted(&self.next(watch).await) {}
    }
}

fn is_completed(kind: &Kind) -> bool {
    matches!(kind, Kind::RunCompleted(_))
}

fn started(kind: &Kind) -> Option<u32> {
    match kind {
        Kind::StepStarted(it) => it.attempt.as_ref().map(|attempt| attempt.step),
        _ => None,
    }
}

fn completed(kind: &Kind) -> Option<u32> {
    match kind {
        Kind::StepCompleted(it) => it.attempt.as_ref().map(|attempt| attempt.step),
        _ => None,
    }
}

/// In the notation of the table.
fn fate(number: u32, status: StepStatus) -> String {
    let mark = match status {
        _ if number > KNOWN => 'n',
        StepStatus::Pending => 'p',
        StepStatus::Running => 'r',
        StepStatus::Completed => 'd',
        StepStatus::Failed => 'f',
        StepStatus::Skipped => 's',
        StepStatus::Unspecified => '?',
    };
    format!("{number}{mark}")
}

/// The fates of the steps that the new plan does not have any more. One that ran was stopped.
fn dropped(diff: &pb::PlanDiff) -> Vec<String> {
    let mut gone: Vec<_> = diff.gone.iter().collect();
    gone.sort_by_key(|step| step.number);
    let gone = gone.into_iter().map(|step| match step.status() {
        StepStatus::Running => fate(step.number, StepStatus::Skipped),
        status => fate(step.number, status),
    });
    gone.collect()
}

fn numbers<'a>(fates: impl IntoIterator<Item = &'a String>) -> BTreeSet<u32> {
    let digits = |fate: &'a String| fate.trim_end_matches(char::is_alphabetic);
    fates
        .into_iter()
        .map(|fate| digits(fate).parse().expect("a number"))
        .collect()
}
