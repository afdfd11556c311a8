//! What planners and executors answer, in the words of the engine.

use super::Owner;
use super::long_results::Wholes;
use super::planner::{planning_ended, read_plan};
use super::work::has_open_intent;
use crate::store::NEWER_VERSION;
use cairn_engine::decide::{FullRequest, Input, Reply, Retry, Summarised};
use cairn_engine::event::{AttemptRef, CallFinished, Effect};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::Point;
use cairn_engine::limits::{LARGEST_REPLY, MAX_CALLS};
use cairn_engine::message::Usage;
use cairn_engine::outstanding::Work;
use cairn_proto::convert::{ConvertError, Reported, summarised};
use cairn_proto::executor::{CallResult, RunStepResponse};
use cairn_proto::planner::MakePlanResponse;
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::fmt::Display;
use std::time::Duration;
use tonic::Status;

/// First and longest pause before something is tried again that was lost.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The same for what nobody has taken yet: somebody else may have room at once, and whoever waits
/// long must not be overtaken by all who come.
const FIRST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A planner that cannot be reached is asked this often before the run fails.
const MOST_PLANNING_TRIES: u32 = 6;

/// An attempt whose executor is lost this often in a row fails.
const MOST_BREAKS: u32 = 8;

/// The same for one with a long conversation, whose executors may be killed for their memory.
const MOST_LONG_BREAKS: u32 = 3;

/// A conversation is long if its start has so many bytes.
const LONG: usize = MIB;

const MIB: usize = 1024 * 1024;

/// How often a piece of work could not be done, in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failures {
    /// Whoever was to do it was lost, or could not be reached.
    lost: u32,
    /// Nobody had room for it, or nobody was there: that is no failure, but something to wait for.
    refused: u32,
}

impl Failures {
    /// How long to wait before the next try.
    pub(super) fn pause(self) -> Duration {
        let (first, longest) = match self.lost {
            0 => (FIRST_WAIT, LONGEST_WAIT),
            _ => (FIRST_PAUSE, LONGEST_PAUSE),
        };
        let times = self.lost.saturating_add(self.refused);
        (first * (1 << times.min(8))).min(longest)
    }
}

impl Owner {
    pub(super) fn planned(
        &mut self,
        work: Work,
        outcome: Result<MakePlanResponse, Status>,
    ) -> Option<Input> {
        self.active.remove(&work);
        let error = match outcome {
            Ok(answer) => {
                self.failures.remove(&work);
                return read_plan(work, answer);
            }
            Err(status) => RpcError::from_status(&status),
        };
        let failures = self.failures.entry(work).or_default();
        if was_not_begun(&error) {
            tracing::debug!(session = %self.key, %error, "planning waits");
            failures.refused += 1;
            return None;
        }
        failures.lost += 1;
        if failures.lost < MOST_PLANNING_TRIES && !is_final(&error) {
            tracing::warn!(session = %self.key, %error, "planning is tried again");
            return None;
        }
        let message = format!("the planner cannot be asked: {error}");
        let failure = Failure::new(FailureKind::Other, "PlannerUnavailable", message);
        planning_ended(work, Err(failure), Usage::default(), 0)
    }

    pub(super) fn reported(
        &mut self,
        attempt: AttemptRef,
        stream: u64,
        (report, wholes): (RunStepResponse, Wholes),
        inputs: &mut Vec<Input>,
    ) {
        if !self.is_from(attempt, stream) {
            return;
        }
        self.reported.insert(attempt, report.number);
        self.note_results(attempt, &report, &wholes);
        match read_report(attempt, report, wholes) {
            Ok(read) => inputs.push(read),
            Err(error) => {
                tracing::error!(session = %self.key, %error, "report of an executor is dropped");
                inputs.push(self.lost(attempt, &error));
            }
        }
    }

    /// The executor knows the results that it reports, so it is not sent them. Of a long one, of one with media, of one
    /// that is due to a hook, and of all of them if hooks are asked about results, it does not know what the model gets.
    fn note_results(&mut self, attempt: AttemptRef, report: &RunStepResponse, wholes: &Wholes) {
        let run = self.session.run(attempt.run);
        if run.is_some_and(|run| run.hooks.listens(Point::PostToolCall)) {
            return;
        }
        let running = self.session.attempt(attempt);
        let calls = running.map_or(&[][..], |running| &running.calls[..]);
        // Of another call, the executor may have put the result to the model already.
        let names_hook = |result: &CallResult| {
            let call = result.call.and_then(|call| calls.get(call.index as usize));
            call.is_some_and(|call| {
                let is_effectful = call.effect == Effect::Effectful;
                is_effectful && call.blamed_hook(&result.reason).is_some()
            })
        };
        let active = self.active.get_mut(&Work::RunStep(attempt));
        let Some(executor) = active.and_then(|active| active.executor.as_mut()) else {
            return;
        };
        let is_end = |(position, result): &(usize, &CallResult)| {
            let is_open = result.question.is_some() || result.reason == CallFinished::NOT_SENT;
            let is_known = !wholes.contains_key(position) && result.media.is_empty();
            !is_open && is_known && !names_hook(result)
        };
        let ended = report.results.iter().enumerate().filter(is_end);
        let ended = ended.filter_map(|(_, result)| result.call.map(|call| call.index));
        executor.view.results.extend(ended);
    }

    pub(super) fn broken(
        &mut self,
        attempt: AttemptRef,
        stream: u64,
        status: Option<&Status>,
    ) -> Option<Input> {
        if !self.is_from(attempt, stream) {
            return None;
        }
        let work = Work::RunStep(attempt);
        if self.inbox.is_stopping() && !has_open_intent(&self.session, work) {
            // The next owner continues it, whatever became of this stream.
            self.active.remove(&work);
            self.reported.remove(&attempt);
            return None;
        }
        let Some(error) = status.map(RpcError::from_status) else {
            return Some(self.lost_process(attempt, &"it ended early"));
        };
        // What was permitted may have been sent before the tools went: that is not to be sent again.
        let is_away = ["TOOLS_UNREACHABLE", NEWER_VERSION].contains(&error.reason_name());
        let is_doubtful = is_away && has_open_intent(&self.session, work);
        if was_not_begun(&error) && !is_doubtful {
            tracing::debug!(session = %self.key, ?attempt, %error, "attempt waits");
            self.active.remove(&work);
            self.reported.remove(&attempt);
            self.placed.remove(&attempt);
            // One that finds no executor waits for a slot instead.
            if is_away {
                self.failures.entry(work).or_default().refused += 1;
            }
            return None;
        }
        if is_final(&error) {
            self.active.remove(&work);
            return Some(refused(attempt, &error));
        }
        match error.reason_name() {
            // The executor is there, and its tools are not.
            "CALL_LOST" | "TOOLS_UNREACHABLE" => Some(self.lost(attempt, &error)),
            _ => Some(self.lost_process(attempt, &error)),
        }
    }

    /// An executor is lost or of no use. Another one continues the attempt, unless that has happened
    /// too often. A process that stops fails no step: the next owner counts anew.
    pub(super) fn lost(&mut self, attempt: AttemptRef, cause: &dyn Display) -> Input {
        self.count_loss(attempt, cause, 0)
    }

    /// The same for an executor whose process may have been killed for its memory.
    fn lost_process(&mut self, attempt: AttemptRef, cause: &dyn Display) -> Input {
        let active = self.active.get(&Work::RunStep(attempt));
        let executor = active.and_then(|active| active.executor.as_ref());
        let start_bytes = executor.map_or(0, |executor| executor.start_bytes);
        self.count_loss(attempt, cause, start_bytes)
    }

    /// The start had so many bytes; 0 if that is no reason.
    fn count_loss(
        &mut self,
        attempt: AttemptRef,
        cause: &dyn Display,
        start_bytes: usize,
    ) -> Input {
        let work = Work::RunStep(attempt);
        let executor = self
            .active
            .remove(&work)
            .and_then(|mut it| it.executor.take());
        self.reported.remove(&attempt);
        if executor.is_some_and(|it| self.deps.dispatch.is_draining(&it.id)) {
            tracing::info!(session = %self.key, ?attempt, "attempt continues elsewhere: its executor stops");
            return Input::AttemptLost { attempt };
        }
        let failures = self.failures.entry(work).or_default();
        failures.lost += 1;
        tracing::warn!(session = %self.key, ?attempt, %cause, "attempt lost its executor");
        let most = match start_bytes {
            LONG.. => MOST_LONG_BREAKS,
            _ => MOST_BREAKS,
        };
        if failures.lost < most || self.inbox.is_stopping() {
            return Input::AttemptLost { attempt };
        }
        let times = failures.lost;
        let mut message = format!("the executor was lost {times} times in a row: {cause}");
        if start_bytes >= LONG {
            message += &format!(
                "; the conversation has {} MiB: give executors more memory, or the context a window",
                start_bytes / MIB
            );
        }
        failed(attempt, FailureKind::Other, "ExecutorLost", message)
    }

    /// The stream is the one that carries the attempt now.
    fn is_from(&self, attempt: AttemptRef, stream: u64) -> bool {
        let active = self.active.get(&Work::RunStep(attempt));
        active.is_some_and(|active| active.stream == stream)
    }
}

/// Nobody has room now, or nobody is there: the executor or the planner, or the tools that it needs
/// to go on; or what is there is too old. That may last, as while a machine is replaced, and is nobody's
/// failure.
fn was_not_begun(error: &RpcError) -> bool {
    let waits = ["NO_FREE_SLOT", "TOOLS_UNREACHABLE", NEWER_VERSION];
    waits.contains(&error.reason_name()) || Link::did_not_begin(error)
}

/// What does not fit into a message, or is wrong in itself, will be so the next time.
fn is_final(error: &RpcError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::OutOfRange | ErrorKind::InvalidArgument
    )
}

/// The attempt fails by what the way to the executor, or the executor itself, will always refuse.
fn refused(attempt: AttemptRef, error: &RpcError) -> Input {
    if error.kind() == ErrorKind::OutOfRange {
        let message = format!("the step cannot be told to an executor, or by it: {error}");
        let kind = FailureKind::LimitExceeded;
        return failed(attempt, kind, "message_too_large", message);
    }
    let message = format!("the executor refuses the step: {error}");
    failed(attempt, FailureKind::Other, error.reason_name(), message)
}

fn failed(attempt: AttemptRef, kind: FailureKind, reason: &str, message: String) -> Input {
    Input::Report {
        attempt,
        results: Vec::new(),
        unfinished: Vec::new(),
        reply: None,
        failure: Some(Failure::new(kind, reason, message)),
        full: None,
        summary: None,
        retry: None,
    }
}

/// A report in the words of the engine. A reply that no journal takes fails the attempt, and such a summary
/// counts as none.
fn read_report(
    attempt: AttemptRef,
    report: RunStepResponse,
    mut wholes: Wholes,
) -> Result<Input, ConvertError> {
    let (mut results, mut unfinished) = (Vec::new(), Vec::new());
    for (position, result) in report.results.into_iter().enumerate() {
        match Reported::try_from(result)? {
            Reported::Finished(mut result) => {
                result.whole = wholes.remove(&position).flatten();
                results.push(result);
            }
            Reported::Unfinished(call) => unfinished.push(call),
        }
    }
    let reply = report.reply.map(|reply| Reply::try_from(*reply));
    let reply = reply.transpose()?;
    let fault = reply.as_ref().and_then(fault_of);
    // The failure of a summary is none of its attempt.
    let (summary, failure) = match report.summary {
        Some(summary) => (Some(summarised(*summary, report.failure)?), None),
        None => (None, report.failure),
    };
    Ok(Input::Report {
        attempt,
        results,
        unfinished,
        reply,
        failure: failure.map(Failure::from).or(fault),
        full: report.full.map(FullRequest::try_from).transpose()?,
        summary: summary.map(within_limit).map(Box::new),
        retry: report.retry.map(Retry::try_from).transpose()?.map(Box::new),
    })
}

/// The summary, or why no journal takes it.
fn within_limit(summary: Summarised) -> Summarised {
    let outcome = summary
        .outcome
        .and_then(|text| match too_large("summary", text.len()) {
            None => Ok(text),
            Some(fault) => Err(fault),
        });
    Summarised { outcome, ..summary }
}

/// Why no journal takes the reply, if none does.
fn fault_of(reply: &Reply) -> Option<Failure> {
    let calls = reply.calls.len();
    let too_many = || {
        let message = format!("the reply asks for {calls} calls; at most {MAX_CALLS} are allowed");
        Failure::new(FailureKind::LimitExceeded, "too_many_calls", message)
    };
    let too_large = too_large("reply", size_of(reply));
    too_large.or_else(|| (calls > MAX_CALLS).then(too_many))
}

/// Why no journal takes what a model wrote in so many bytes, if none does.
fn too_large(what: &str, bytes: usize) -> Option<Failure> {
    (bytes > LARGEST_REPLY).then(|| {
        let message = format!("the {what} has {bytes} bytes; at most {LARGEST_REPLY} are allowed");
        Failure::new(FailureKind::LimitExceeded, "reply_too_large", message)
    })
}

fn size_of(reply: &Reply) -> usize {
    let calls = reply
        .calls
        .iter()
        .map(|call| call.name.len() + call.arguments.len());
    let opaque = reply.opaque.iter().map(|placed| placed.opaque.json.len());
    reply.text.len() + calls.sum::<usize>() + opaque.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::{Failures, LONGEST_PAUSE, LONGEST_WAIT};
    use std::time::Duration;

    /// Whoever is refused asks the next executor soon, and never waits so long that all who come
    /// later are served first.
    #[test]
    fn to_be_refused_costs_less_time_than_to_be_lost() {
        let pause = |lost, refused| Failures { lost, refused }.pause();
        assert!(pause(0, 1) <= Duration::from_millis(10));
        assert!(pause(1, 0) >= Duration::from_millis(100));
        assert_eq!(pause(0, 1000), LONGEST_WAIT);
        assert_eq!(pause(7, 1000), LONGEST_PAUSE);
    }
}
