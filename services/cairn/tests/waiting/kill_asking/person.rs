//! A person who starts a run, watches it and answers what it asks, over restarts of its server.

use super::place::Place;
use super::served::{PATIENCE, SESSION, Watch};
use crate::support::{Client, connect};
use cairn::ui::event_json::event_json;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Answer, Approve, Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_testkit::{Journal, Site};
use serde_json::Value;
use std::collections::BTreeMap;
use tonic::Status;

/// What the model is told.
pub(crate) const REPORTED: &str = "the left one";

/// Keeps what was said and answered, and the cursor.
#[derive(Debug, Default)]
pub(crate) struct Person {
    /// What is said to each question; a repeat says the same.
    words: BTreeMap<String, Outcome>,
    /// What was answered to that.
    pub(crate) taken: BTreeMap<String, pb::DecideResponse>,
    events: Vec<(u64, wire::Event)>,
    pub(crate) has_ended: bool,
}

impl Person {
    /// Asks for everything, again if need be, and watches until the run has ended or the server is
    /// gone.
    pub(crate) async fn go_on(&mut self, place: &Place, reference: &Journal) -> Result<(), Status> {
        let mut client = connect(place.address());
        let site = &place.site;
        let begun = tokio::time::timeout(PATIENCE, begin(&mut client)).await;
        begun.expect("answers in time")?;
        // What is asked may have been seen already.
        self.answer(site, &mut client, reference).await?;
        let cursor = self.events.last().map_or(0, |(seq, _)| *seq);
        let mut watch = Watch::after(&mut client, SESSION, cursor).await?;
        while !self.has_ended {
            let (seq, event) = watch.next().await?;
            let kind = event.kind.clone();
            self.events.push((seq, event));
            match kind {
                Some(Kind::RunWaiting(_)) => self.answer(site, &mut client, reference).await?,
                Some(Kind::RunCompleted(_)) => self.has_ended = true,
                Some(Kind::RunFailed(failed)) => panic!("{failed:?}"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Answers what is open, and again what nobody said that it was taken.
    async fn answer(
        &mut self,
        site: &Site,
        client: &mut Client,
        reference: &Journal,
    ) -> Result<(), Status> {
        for open in pending(client).await? {
            assert!(
                open.answered || !self.taken.contains_key(&open.id),
                "it was answered, and is asked again: {open:?}"
            );
            let said = || what_to_say(site, reference, &open);
            self.words.entry(open.id.clone()).or_insert_with(said);
        }
        let words = self.words.clone().into_iter();
        let untold = words.filter(|(id, _)| !self.taken.contains_key(id));
        for (id, outcome) in untold.collect::<Vec<_>>() {
            let answer = decide(client, &id, outcome).await?;
            self.taken.insert(id, answer);
        }
        Ok(())
    }

    /// Panics unless everything that was answered is answered like that again.
    pub(crate) async fn check_repeats(&self, place: &Place, fail: &str) {
        let mut client = connect(place.address());
        for (id, answer) in &self.taken {
            let again = decide(&mut client, id, self.words[id].clone()).await;
            assert_eq!(again.expect("the same answer"), *answer, "{fail}: {id}");
        }
    }

    /// What was watched, before a kill and after it, is the journal: no gap, nothing twice.
    pub(crate) fn check_watched(&self, journal: &Journal, fail: &str) {
        let watched = self.events.iter();
        let watched: Vec<Value> = watched
            .map(|(seq, event)| event_json(*seq, event))
            .collect();
        assert_eq!(watched, journal.0[..watched.len()], "{fail}");
        assert_eq!(watched.len(), journal.0.len(), "{fail}");
    }
}

/// Creates the session and starts the run, or finds that it was done.
async fn begin(client: &mut Client) -> Result<(), Status> {
    let request = pb::CreateSessionRequest {
        session: SESSION.to_owned(),
        request_id: "create".to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await?;
    let request = pb::StartRunRequest {
        session: SESSION.to_owned(),
        request_id: "start".to_owned(),
        run: Some(wire::StartRun {
            goal: "Choose one, and pay for it.".to_owned(),
            limits: Some(wire::LimitOverrides {
                review_plan: true,
                ..wire::LimitOverrides::default()
            }),
            ..wire::StartRun::default()
        }),
        ..pb::StartRunRequest::default()
    };
    client.start_run(request).await?;
    Ok(())
}

pub(crate) async fn pending(client: &mut Client) -> Result<Vec<pb::Pending>, Status> {
    let session = SESSION.to_owned();
    let request = pb::ListPendingRequest {
        session,
        ..pb::ListPendingRequest::default()
    };
    Ok(client.list_pending(request).await?.into_inner().pending)
}

/// Yes to what may be done, and what the ledger says of a call in doubt, with the output that it gives
/// in a run that nobody disturbs.
fn what_to_say(site: &Site, reference: &Journal, open: &pb::Pending) -> Outcome {
    match open.reason() {
        wire::WaitReason::Question => Outcome::Answer(Answer {
            text: REPORTED.to_owned(),
        }),
        wire::WaitReason::InDoubt if site.ledger().has(&open.call_key) => Outcome::Done(Done {
            output: reference.recorded_in(&open.step.into()),
        }),
        wire::WaitReason::InDoubt => Outcome::Retry(Retry {}),
        _ => Outcome::Approve(Approve {}),
    }
}

async fn decide(
    client: &mut Client,
    id: &str,
    outcome: Outcome,
) -> Result<pb::DecideResponse, Status> {
    let request = pb::DecideRequest {
        session: SESSION.to_owned(),
        request_id: format!("decide-{id}"),
        pending_id: id.to_owned(),
        settlement: Some(wire::Settlement {
            outcome: Some(outcome),
        }),
    };
    Ok(client.decide(request).await?.into_inner())
}
