//! What clients say to their runs: that they are to pause, to end, to have another plan, and what a
//! person answers. A request is repeated under its name until it is answered.

use super::load::{ANSWER, Driver};
use super::oracle::{Reported, Said, What};
use super::run::{Break, Run, now, until};
use super::wanted::{Act, FEEDBACK};
use cairn::ui::event_json::plan as plan_json;
use cairn_proto::event as wire;
use cairn_proto::event::settlement::{Approve, Deny, Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use serde_json::json;
use std::future::Future;
use tokio::time::{sleep, timeout};
use tonic::{Response, Status};

impl Driver {
    /// Does what is due to the run.
    pub(crate) async fn act(&mut self, run: &mut Run) -> Result<(), Break> {
        while !run.has_ended && run.known.seen.len() >= run.wanted.acts_at {
            let Some(&act) = run.wanted.acts.get(run.acted) else {
                return Ok(());
            };
            let request = format!("{act:?}").to_lowercase();
            let (reported, what) = match act {
                Act::Pause => (self.pause(run, &request).await?, What::Pause),
                Act::Resume => (self.resume(run, &request).await?, What::Resume),
                Act::Cancel => (self.cancel(run, &request).await?, What::Cancel),
                Act::Apply => {
                    let plan = plan_json(Some(&run.wanted.revised));
                    (self.apply(run, &request).await?, What::Apply(plan))
                }
                Act::Feedback => (self.feed_back(run, &request).await?, What::Feedback),
            };
            run.acted += 1;
            match &reported {
                Reported::Accepted(seq) => run.revised = run.revised.max(*seq),
                // Nothing more can be done to it.
                Reported::Refused(_) => run.acted = run.wanted.acts.len(),
            }
            self.count(name_of(act, &reported));
            self.keep(run, request, what, reported);
        }
        Ok(())
    }

    /// Keeps an answer for the end.
    fn keep(&self, run: &mut Run, request: String, what: What, reported: Reported) {
        let asked_at = run.asked.get(&request).copied().unwrap_or_default();
        run.known.said.push(Said {
            request,
            what,
            reported,
            asked_at,
            reported_at: now(),
        });
    }

    async fn pause(&self, run: &mut Run, request_id: &str) -> Result<Reported, Break> {
        let request = pb::PauseRunRequest {
            session: run.known.session().to_owned(),
            request_id: request_id.to_owned(),
            ..pb::PauseRunRequest::default()
        };
        let mut client = self.client();
        let asked = async { client.pause_run(request).await };
        let reported = say(run, request_id, asked, &["RUN_ENDED"]).await?;
        Ok(reported.map_or_else(Reported::Refused, |_| Reported::Accepted(0)))
    }

    async fn resume(&self, run: &mut Run, request_id: &str) -> Result<Reported, Break> {
        if !run.asked.contains_key(request_id) {
            sleep(run.wanted.hold).await;
        }
        let request = pb::ResumeRunRequest {
            session: run.known.session().to_owned(),
            request_id: request_id.to_owned(),
            ..pb::ResumeRunRequest::default()
        };
        let mut client = self.client();
        let asked = async { client.resume_run(request).await };
        let reported = say(run, request_id, asked, &[]).await?;
        Ok(reported.map_or_else(Reported::Refused, |_| Reported::Accepted(0)))
    }

    async fn cancel(&self, run: &mut Run, request_id: &str) -> Result<Reported, Break> {
        let request = pb::CancelRunRequest {
            session: run.known.session().to_owned(),
            request_id: request_id.to_owned(),
            run: 1,
            ..pb::CancelRunRequest::default()
        };
        let mut client = self.client();
        let asked = async { client.cancel_run(request).await };
        let reported = say(run, request_id, asked, &["RUN_ENDED"]).await?;
        Ok(reported.map_or_else(Reported::Refused, |_| Reported::Accepted(0)))
    }

    /// Also a run that has ended continues with another plan.
    async fn apply(&self, run: &mut Run, request_id: &str) -> Result<Reported, Break> {
        let request = pb::ApplyPlanRequest {
            session: run.known.session().to_owned(),
            request_id: request_id.to_owned(),
            expected_revision: 1,
            change: Some(pb::apply_plan_request::Change::Plan(
                run.wanted.revised.clone(),
            )),
            ..pb::ApplyPlanRequest::default()
        };
        let mut client = self.client();
        let asked = async { client.apply_plan(request).await };
        let reported = say(run, request_id, asked, &[]).await?;
        Ok(reported.map_or_else(Reported::Refused, |it| Reported::Accepted(it.seq)))
    }

    /// A plan that is lost with its planner again and again is not made.
    async fn feed_back(&self, run: &mut Run, request_id: &str) -> Result<Reported, Break> {
        let request = pb::SendFeedbackRequest {
            session: run.known.session().to_owned(),
            request_id: request_id.to_owned(),
            feedback: FEEDBACK.to_owned(),
            ..pb::SendFeedbackRequest::default()
        };
        let mut client = self.client();
        let asked = async { client.send_feedback(request).await };
        let reported = say(run, request_id, asked, &["REVISION_FAILED"]).await?;
        Ok(reported.map_or_else(Reported::Refused, |it| Reported::Accepted(it.seq)))
    }

    /// Answers what is asked, and again what was answered without anybody saying that it was taken.
    pub(crate) async fn settle(&mut self, run: &mut Run) -> Result<(), Break> {
        let session = run.known.session().to_owned();
        let request = pb::ListPendingRequest {
            session,
            ..pb::ListPendingRequest::default()
        };
        let mut client = self.client();
        let open = self.ask(run, client.list_pending(request)).await?.pending;
        for question in open.into_iter().filter(|it| !it.answered) {
            if !run.answers.contains_key(&question.id) {
                let outcome = self.decide(run, &question).await;
                run.answers.insert(question.id.clone(), outcome);
            }
        }
        let is_open = |id: &&String| !run.settled.contains(*id);
        let ids: Vec<_> = run.answers.keys().filter(is_open).cloned().collect();
        for id in ids {
            self.answer(run, id).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, run: &mut Run, id: String) -> Result<(), Break> {
        let outcome = run.answers.get(&id).cloned();
        let settlement = wire::Settlement { outcome };
        let request_id = format!("decide-{id}");
        let request = pb::DecideRequest {
            session: run.known.session().to_owned(),
            request_id: request_id.clone(),
            pending_id: id.clone(),
            settlement: Some(settlement.clone()),
        };
        let mut client = self.client();
        let asked = async { client.decide(request).await };
        // What does not run any more asks nothing any more.
        let reported = say(run, &request_id, asked, &["NOT_PENDING"]).await?;
        let reported = reported.map_or_else(Reported::Refused, |_| Reported::Accepted(0));
        run.settled.insert(id);
        let what = What::Decide(word(&settlement));
        self.keep(run, request_id, what, reported);
        Ok(())
    }

    /// Allows what it may, and looks at a call in doubt as a careful person does: into the tool's own
    /// records, and if nothing is there, again when the call can no longer be running.
    async fn decide(&mut self, run: &mut Run, question: &pb::Pending) -> Outcome {
        if question.reason() == wire::WaitReason::Approval {
            let denied = run.wanted.denied.as_ref();
            if denied.is_some_and(|it| question.arguments_json.contains(it)) {
                self.count("calls denied");
                return Outcome::Deny(Deny {
                    reason: "not this one".to_owned(),
                });
            }
            self.count("calls approved");
            return Outcome::Approve(Approve {});
        }
        self.count("calls in doubt");
        let is_there = || self.load.ledger.has(&question.call_key);
        if !is_there() {
            sleep(until(question.settle_after_unix_ms)).await;
        }
        if is_there() {
            let output = format!("recorded {}\n", question.arguments_json);
            return Outcome::Done(Done { output });
        }
        self.count("calls made again");
        Outcome::Retry(Retry {})
    }
}

/// Sends a request, and tells what was answered: these refusals are answers.
async fn say<T>(
    run: &mut Run,
    request_id: &str,
    request: impl Future<Output = Result<Response<T>, Status>>,
    refusals: &[&str],
) -> Result<Result<T, String>, Break> {
    run.asked.entry(request_id.to_owned()).or_insert_with(now);
    match timeout(ANSWER, request).await {
        Ok(Ok(answer)) => Ok(Ok(answer.into_inner())),
        Err(_) => Err(Break::Usual),
        Ok(Err(status)) => {
            let error = RpcError::from_status(&status);
            let reason = error.reason_name();
            match refusals.contains(&reason) {
                true => Ok(Err(reason.to_owned())),
                false => Err(run.note(&status)),
            }
        }
    }
}

/// As journals have it.
fn word(settlement: &wire::Settlement) -> serde_json::Value {
    match &settlement.outcome {
        Some(Outcome::Approve(_)) => json!({"approve": {}}),
        Some(Outcome::Deny(deny)) => json!({"deny": {"reason": deny.reason}}),
        Some(Outcome::Done(done)) => json!({"done": {"output": done.output}}),
        Some(Outcome::Retry(_)) => json!({"retry": {}}),
        _ => serde_json::Value::Null,
    }
}

fn name_of(act: Act, reported: &Reported) -> &'static str {
    match (act, reported) {
        (Act::Feedback, Reported::Refused(_)) => "plans that the planner did not make",
        (_, Reported::Refused(_)) => "pauses and ends that came too late",
        (Act::Pause, _) => "runs paused",
        (Act::Resume, _) => "runs resumed",
        (Act::Cancel, _) => "runs cancelled",
        (Act::Apply, _) => "plans applied by hand",
        (Act::Feedback, _) => "plans made of feedback",
    }
}
