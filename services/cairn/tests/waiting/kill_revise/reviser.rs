//! A client that wishes for another plan and watches what comes of it, over restarts of its server.

use super::place::Place;
use super::served::{self, PATIENCE, SESSION, Watch};
use super::stage::{self, Stage};
use crate::support::{Client, connect};
use cairn::ui::event_json::event_json;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::apply_plan_request::Change;
use cairn_proto::orchestrator::propose_plan_request::Change as Proposed;
use cairn_testkit::{Journal, Site};
use std::collections::BTreeMap;
use std::fmt::Debug;
use tonic::Status;

/// How another plan comes to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// It is proposed, and the proposal is applied.
    ByHand,
    /// The planner makes it of feedback.
    Feedback,
}

/// What a request was answered.
#[derive(Debug, Clone, PartialEq)]
struct Reported {
    /// The event that it names, if it does.
    seq: u64,
    answer: String,
    /// Without what is of this session and its owners alone: numbers of events, and times.
    alike: String,
}

/// Keeps the names of its requests, what was answered, and its cursor.
pub(crate) struct Reviser {
    pub(crate) stage: Stage,
    way: Way,
    answers: BTreeMap<&'static str, Reported>,
    events: Vec<(u64, wire::Event)>,
    pub(crate) has_ended: bool,
}

impl Reviser {
    pub(crate) fn new(stage: Stage, way: Way) -> Self {
        Self {
            stage,
            way,
            answers: BTreeMap::new(),
            events: Vec::new(),
            has_ended: false,
        }
    }

    pub(crate) fn was_reported_applied(&self) -> bool {
        self.answers.contains_key("apply") || self.answers.contains_key("feedback")
    }

    pub(crate) fn was_reported_proposed(&self) -> bool {
        self.answers.contains_key("propose")
    }

    /// What is answered in every session like that.
    pub(crate) fn answers(&self) -> Vec<String> {
        let answers = self.answers.values();
        answers.map(|reported| reported.alike.clone()).collect()
    }

    /// Asks for everything, again if need be, and watches until the run has ended with the new plan
    /// or the server is gone.
    pub(crate) async fn go_on(&mut self, place: &Place, reference: &Journal) -> Result<(), Status> {
        let mut client = connect(place.address());
        let site = &place.site;
        let asked = tokio::time::timeout(PATIENCE, self.change(&mut client)).await;
        asked.expect("answers in time")?;
        // What is asked may have been seen already, and its answer lost.
        settle(site, &mut client, reference).await?;
        let cursor = self.events.last().map_or(0, |(seq, _)| *seq);
        let mut watch = Watch::after(&mut client, SESSION, cursor).await?;
        while !self.has_ended {
            let (seq, event) = watch.next().await?;
            let kind = event.kind.clone();
            self.events.push((seq, event));
            match kind {
                Some(Kind::RunWaiting(_)) => settle(site, &mut client, reference).await?,
                Some(Kind::RunCompleted(_)) => self.has_ended = self.has_new_plan(),
                Some(Kind::RunFailed(failed)) => panic!("{failed:?}"),
                _ => {}
            }
        }
        Ok(())
    }

    fn has_new_plan(&self) -> bool {
        let kinds = self.events.iter().filter_map(|(_, it)| it.kind.as_ref());
        let plans = kinds.filter(|kind| matches!(kind, Kind::PlanApplied(_)));
        plans.count() == 2
    }

    async fn change(&mut self, client: &mut Client) -> Result<(), Status> {
        match self.way {
            Way::ByHand => {
                let proposed = client.propose_plan(proposal()).await?.into_inner();
                let change = Change::Proposal(proposed.proposal);
                let alike = pb::ProposePlanResponse {
                    diff: proposed.diff.clone().map(timeless),
                    ..proposed.clone()
                };
                self.note("propose", 0, &proposed, &alike);
                let applied = client.apply_plan(application(change)).await?.into_inner();
                let alike = pb::ApplyPlanResponse {
                    seq: 0,
                    diff: applied.diff.clone().map(timeless),
                    ..applied
                };
                self.note("apply", applied.seq, &applied, &alike);
            }
            Way::Feedback => {
                let applied = client.send_feedback(feedback()).await?.into_inner();
                let alike = pb::SendFeedbackResponse {
                    seq: 0,
                    diff: applied.diff.clone().map(timeless),
                    ..applied
                };
                self.note("feedback", applied.seq, &applied, &alike);
            }
        }
        if self.stage == Stage::Paused {
            let request = pb::ResumeRunRequest {
                session: SESSION.to_owned(),
                request_id: "resume".to_owned(),
                ..pb::ResumeRunRequest::default()
            };
            let resumed = client.resume_run(request).await?.into_inner();
            self.note("resume", 0, &resumed, &resumed);
        }
        Ok(())
    }

    /// Panics if the same request was answered differently before.
    fn note<T: Debug>(&mut self, request: &'static str, seq: u64, answer: &T, alike: &T) {
        let reported = Reported {
            seq,
            answer: format!("{answer:?}"),
            alike: format!("{alike:?}"),
        };
        let known = self
            .answers
            .entry(request)
            .or_insert_with(|| reported.clone());
        assert_eq!(*known, reported, "{request} was answered differently");
    }

    /// What was watched, before a kill and after it, is the journal: no gap, nothing twice.
    pub(crate) fn check_watched(&self, journal: &Journal, fail: &str) {
        let watched = self.events.iter();
        let watched: Vec<_> = watched
            .map(|(seq, event)| event_json(*seq, event))
            .collect();
        assert_eq!(watched, journal.0, "{fail}");
        let named = self.answers.values().map(|reported| reported.seq);
        for seq in named.filter(|seq| *seq > 0) {
            let event = &journal.0[seq as usize - 1];
            assert_eq!(event["kind"], "plan_applied", "{fail}: {seq}");
        }
    }
}

/// What a plan saves is a time, too.
fn timeless(mut diff: pb::PlanDiff) -> pb::PlanDiff {
    diff.saved_ms = 0;
    diff
}

fn proposal() -> pb::ProposePlanRequest {
    pb::ProposePlanRequest {
        session: SESSION.to_owned(),
        request_id: "propose".to_owned(),
        expected_revision: 1,
        change: Some(Proposed::Plan(served::wire_plan(&stage::new()))),
        ..pb::ProposePlanRequest::default()
    }
}

fn application(change: Change) -> pb::ApplyPlanRequest {
    pb::ApplyPlanRequest {
        session: SESSION.to_owned(),
        request_id: "apply".to_owned(),
        change: Some(change),
        ..pb::ApplyPlanRequest::default()
    }
}

fn feedback() -> pb::SendFeedbackRequest {
    pb::SendFeedbackRequest {
        session: SESSION.to_owned(),
        request_id: "feedback".to_owned(),
        feedback: "weigh it instead".to_owned(),
        ..pb::SendFeedbackRequest::default()
    }
}

/// Answers what is asked by what the ledger says, with the output that the call gives in a run that
/// nobody disturbs.
async fn settle(site: &Site, client: &mut Client, reference: &Journal) -> Result<(), Status> {
    let request = pb::ListPendingRequest {
        session: SESSION.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    for open in client.list_pending(request).await?.into_inner().pending {
        let outcome = if site.ledger().has(&open.call_key) {
            let output = reference.recorded_in(&open.step.into());
            Outcome::Done(Done { output })
        } else {
            Outcome::Retry(Retry {})
        };
        let request = pb::DecideRequest {
            session: SESSION.to_owned(),
            request_id: format!("decide-{}", open.id),
            pending_id: open.id,
            settlement: Some(wire::Settlement {
                outcome: Some(outcome),
            }),
        };
        client.decide(request).await?;
    }
    Ok(())
}
