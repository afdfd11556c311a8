//! What planners and executors answer, in the words of the engine.

use super::Owner;
use cairn_engine::decide::{Input, Reply};
use cairn_engine::event::{AttemptRef, CallFinished};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_proto::event as wire;
use cairn_proto::executor::RunStepResponse;
use cairn_proto::planner::MakePlanResponse;
use cairn_rpc::RpcError;
use tonic::Status;

/// A planner that cannot be reached is asked this often before the run fails.
const MOST_PLANNING_TRIES: u32 = 6;

/// An attempt whose executor is lost this often in a row fails.
const MOST_BREAKS: u32 = 8;

/// Most bytes of one reply, its calls included: more is not a reply, and no journal takes it.
const LARGEST_REPLY: usize = 1024 * 1024;

impl Owner {
    pub(super) fn planned(
        &mut self,
        run: u32,
        outcome: Result<MakePlanResponse, Status>,
    ) -> Option<Input> {
        let work = Work::Plan { run };
        self.active.remove(&work);
        match outcome {
            Ok(answer) => {
                self.failures.remove(&work);
                Some(read_plan(run, answer))
            }
            Err(status) => {
                let tries = self.failures.entry(work).or_default();
                *tries += 1;
                tracing::warn!(session = %self.key, error = %status, "planning is tried again");
                if *tries < MOST_PLANNING_TRIES {
                    return None;
                }
                let message = format!("the planner cannot be reached: {}", status.message());
                Some(Input::Planned {
                    run,
                    outcome: Err(Failure::new(
                        FailureKind::Other,
                        "PlannerUnavailable",
                        message,
                    )),
                    usage: Usage::default(),
                    duration_ms: 0,
                })
            }
        }
    }

    pub(super) fn reported(
        &mut self,
        attempt: AttemptRef,
        stream: u64,
        report: RunStepResponse,
    ) -> Option<Input> {
        let work = Work::RunStep(attempt);
        self.active
            .get(&work)
            .filter(|active| active.stream == stream)?;
        self.failures.remove(&work);
        self.reported.insert(attempt, report.number);
        let results: Result<Vec<CallFinished>, _> = report
            .results
            .into_iter()
            .map(CallFinished::try_from)
            .collect();
        let reply = report.reply.map(Reply::try_from).transpose();
        let failure = report.failure.map(Failure::from);
        match (results, reply) {
            (Ok(results), Ok(Some(reply))) if size_of(&reply) > LARGEST_REPLY => {
                let message = format!(
                    "the reply has {} bytes; at most {LARGEST_REPLY} are allowed",
                    size_of(&reply)
                );
                let kind = FailureKind::LimitExceeded;
                Some(Input::Report {
                    attempt,
                    results,
                    reply: None,
                    failure: Some(Failure::new(kind, "reply_too_large", message)),
                })
            }
            (Ok(results), Ok(reply)) => Some(Input::Report {
                attempt,
                results,
                reply,
                failure,
            }),
            (results, reply) => {
                let error = results.err().or(reply.err());
                tracing::error!(session = %self.key, ?error, "report of an executor is dropped");
                self.reported.remove(&attempt);
                self.active.remove(&work);
                Some(Input::AttemptLost { attempt })
            }
        }
    }

    pub(super) fn broken(
        &mut self,
        attempt: AttemptRef,
        stream: u64,
        status: Option<&Status>,
    ) -> Option<Input> {
        let work = Work::RunStep(attempt);
        self.active
            .get(&work)
            .filter(|active| active.stream == stream)?;
        self.active.remove(&work);
        self.reported.remove(&attempt);
        let failures = self.failures.entry(work).or_default();
        *failures += 1;
        let failures = *failures;
        let error = status.map(RpcError::from_status);
        tracing::warn!(session = %self.key, ?attempt, ?error, "attempt lost its executor");
        let has_no_slot = |error: &RpcError| error.reason_name() == "NO_FREE_SLOT";
        if error.as_ref().is_some_and(has_no_slot) {
            return None;
        }
        if failures < MOST_BREAKS {
            return Some(Input::AttemptLost { attempt });
        }
        let cause = error.map_or_else(|| "it ended early".to_owned(), |error| error.to_string());
        let message = format!("the executor was lost {failures} times in a row: {cause}");
        Some(Input::Report {
            attempt,
            results: Vec::new(),
            reply: None,
            failure: Some(Failure::new(FailureKind::Other, "ExecutorLost", message)),
        })
    }
}

fn read_plan(run: u32, answer: MakePlanResponse) -> Input {
    let other = |message: String| Failure::new(FailureKind::Other, "BadAnswer", message);
    let outcome = match (answer.plan, answer.failure) {
        (_, Some(failure)) => Err(failure.into()),
        (Some(plan), None) => PlanDraft::try_from(plan).map_err(|error| other(error.to_string())),
        (None, None) => Err(other(
            "the planner gave neither a plan nor a failure".to_owned(),
        )),
    };
    let usage: wire::Usage = answer.usage.unwrap_or_default();
    Input::Planned {
        run,
        outcome,
        usage: usage.into(),
        duration_ms: answer.duration_ms,
    }
}

fn size_of(reply: &Reply) -> usize {
    let calls = reply
        .calls
        .iter()
        .map(|call| call.name.len() + call.arguments.len());
    reply.text.len() + calls.sum::<usize>()
}
