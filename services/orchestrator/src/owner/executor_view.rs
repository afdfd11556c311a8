//! What an executor knows, and how it follows from the state.

use crate::dispatch::Catalogue;
use crate::key::SessionKey;
use cairn_engine::command::WhenFull;
use cairn_engine::event::{AttemptRef, Budget, CallPreview, CallRef, Effect};
use cairn_engine::hooks::Point;
use cairn_engine::message::Media;
use cairn_engine::session::{Attempt, Call, CallStatus, Mode, Session, Turn};
use cairn_proto::event as wire;
use cairn_proto::executor::{Acknowledgement, AttemptStart, CallResult, PermittedCall};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an executor knows: the tools of its attempt, the changes of its conversation, and the calls of its
/// last reply; those before have ended.
#[derive(Debug, Default)]
pub(super) struct ExecutorView {
    /// The tools on offer: those of its start, or what an operator granted and revoked since.
    pub(super) catalogue: Arc<Catalogue>,
    /// It was not sent the name of these tools, which replace those of its start.
    pub(super) is_regranted: bool,
    /// The newest change of the conversation that it was sent.
    pub(super) newest_op: u64,
    /// The version of the context that its turn continues; 0 for a step.
    context_version: u64,
    /// How often the conversation of the attempt, or its task, was replaced before it started.
    rewrites: u32,
    /// Replies up to the one that the rest is about.
    tool_turns: u32,
    /// Calls that it may send: index, how often they were renewed and intended.
    permitted: BTreeSet<(u32, (u32, u32))>,
    /// Calls whose results it has: index.
    pub(super) results: BTreeSet<u32>,
    /// Tools that it knows to be found.
    found: usize,
}

impl ExecutorView {
    /// Of an executor that starts now, and has no call yet.
    fn new(
        session: &Session,
        name: AttemptRef,
        attempt: &Attempt,
        catalogue: &Arc<Catalogue>,
    ) -> Self {
        Self {
            catalogue: Arc::clone(catalogue),
            newest_op: attempt.newest_op(),
            context_version: context_version(session, name),
            rewrites: attempt.rewrites,
            tool_turns: attempt.tool_turns,
            found: attempt.found_tools.len(),
            ..Self::default()
        }
    }

    /// What the model is sent next is not what the executor has: the context of a turn has changed while the turn
    /// was held, a compaction has replaced messages, or a summary comes first.
    pub(super) fn is_old(&self, session: &Session, name: AttemptRef) -> bool {
        // The executor of an attempt that has ended is told so.
        session.attempt(name).is_some_and(|attempt| {
            self.rewrites != attempt.rewrites
                || self.context_version != context_version(session, name)
        })
    }

    /// The owner has answered a call of the last reply, and the executor was not sent the result.
    pub(super) fn lacks_result(&self, attempt: &Attempt) -> bool {
        let mut calls = attempt.calls.iter().zip(0..);
        let is_new =
            |(call, index): (&Call, u32)| call.is_finished() && !self.results.contains(&index);
        self.tool_turns == attempt.tool_turns && calls.any(is_new)
    }

    /// A call of the last reply may be sent by now, as after its preview, and the executor does not know that.
    pub(super) fn lacks_permit(&self, attempt: &Attempt) -> bool {
        let mut calls = attempt.calls.iter().zip(0..);
        let is_new = |(call, index): (&Call, u32)| {
            may_be_sent(call) && !self.permitted.contains(&(index, times_intended(call)))
        };
        self.tool_turns == attempt.tool_turns && calls.any(is_new)
    }
}

/// The version of the context that an attempt continues; 0 for a step.
fn context_version(session: &Session, name: AttemptRef) -> u64 {
    let turn = session.turn(name);
    let context = turn.and_then(|turn| session.context(&turn.context));
    context.map_or(0, |context| context.version)
}

/// What limits an attempt beside its run.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartLimits {
    /// The end of what calls may begin, by the store's clock.
    pub(super) not_after: i64,
    /// Most bytes of a result that a model gets at once.
    pub(super) result_bytes: usize,
    /// Thousandths of the window that a request may take before older messages give way.
    pub(super) compact_at_permille: u32,
}

impl StartLimits {
    /// The same for an attempt; 0 if none of its messages may give way. A run that compacts does so whatever
    /// its context says.
    fn compact_at(self, session: &Session, name: AttemptRef) -> u32 {
        let is_compaction = session.turn(name).is_some_and(Turn::is_compaction);
        match session.when_full(name) {
            WhenFull::Refuse if !is_compaction => 0,
            WhenFull::Refuse | WhenFull::Compact => self.compact_at_permille,
        }
    }
}

/// What an attempt begins or continues with, and what its executor knows then.
pub(super) fn attempt_start(
    session: &Session,
    key: &SessionKey,
    name: AttemptRef,
    catalogue: &Arc<Catalogue>,
    limits: StartLimits,
) -> Option<(AttemptStart, ExecutorView)> {
    let (run, step) = (session.run(name.run)?, session.step(name)?);
    let attempt = session.attempt(name)?;
    let mut view = ExecutorView::new(session, name, attempt, catalogue);
    let (mut open, mut held, mut results) = (Vec::new(), Vec::new(), Vec::new());
    // A reply comes when the calls of the turn before it are over.
    for (call_name, call) in attempt.last_calls(name) {
        let index = call_name.index;
        if let Some(result) = result_of(call_name, call) {
            view.results.insert(index);
            results.push(result);
        } else if may_be_sent(call) {
            view.permitted.insert((index, times_intended(call)));
            open.push(permitted(session, key, call_name, call, limits.not_after));
        } else {
            held.push(call_name.into());
        }
    }
    let turn = session.turn(name);
    let mut start = AttemptStart {
        session: key.id.to_string(),
        attempt: Some(name.into()),
        model: run.model.clone(),
        // The owner ends a turn that uses up its tool turns: a final reply may follow the last of them.
        max_tool_turns: turn.map_or(run.limits.failing_tool_turns(), |_| u32::MAX),
        limits_cost: run.spent.allowed[Budget::Cost].is_some(),
        agent: run
            .agent
            .as_ref()
            .map(|used| used.name.clone())
            .unwrap_or_default(),
        result_bytes: u32::try_from(limits.result_bytes).unwrap_or(u32::MAX),
        leaves_results: run.hooks.listens(Point::PostToolCall),
        ..AttemptStart::default()
    };
    if step.plan.tool.is_some() {
        start.tool_step = open.pop();
    } else {
        let waiting = attempt.waiting_ops.iter().cloned();
        start.conversation = session.conversation(name).map(Into::into);
        start.tool_turns = attempt.tool_turns;
        start.ops = waiting.map(Into::into).collect();
        start.ops_through = attempt.ops_through;
        (start.open_calls, start.held_calls) = (open, held);
        start.results = results;
        start.catalogue.clone_from(&catalogue.name);
        start.no_early_calls = waits_for_permits(session, name);
        start.settles_before_request = run.hooks.listens(Point::PreRequest);
        start.reports_retries = run.hooks.listens(Point::OnRetry);
        start.no_deltas = run.hooks.listens(Point::PostRequest);
        start.found_tools.clone_from(&attempt.found_tools);
        start.options = turn.map(|turn| turn.options.clone().into());
        let agent = session.agent_of(name);
        start.temperature_milli = agent.and_then(|agent| agent.definition.temperature_milli);
        start.compact_at_permille = limits.compact_at(session, name);
        start.summary = attempt.summary.clone().map(Into::into);
        start.estimate_permille = session.estimates.of(&run.model).permille;
    }
    Some((start, view))
}

/// Adds to an acknowledgement what the executor does not know yet: changes of the conversation, calls that
/// it may send now, calls that are held, and results of calls that the owner answered.
pub(super) fn news_for_executor(
    session: &Session,
    key: &SessionKey,
    name: AttemptRef,
    not_after: i64,
    view: &mut ExecutorView,
    ack: &mut Acknowledgement,
) {
    let Some(attempt) = session.attempt(name) else {
        return;
    };
    if view.tool_turns != attempt.tool_turns {
        view.tool_turns = attempt.tool_turns;
        view.permitted.clear();
        view.results.clear();
    }
    let known = view.newest_op.saturating_sub(attempt.ops_through);
    let news = attempt.waiting_ops.iter().skip(known as usize);
    ack.ops = news.cloned().map(Into::into).collect();
    view.newest_op = attempt.newest_op();
    let found = attempt.found_tools.iter().skip(view.found);
    ack.found_tools = found.cloned().collect();
    view.found = attempt.found_tools.len();
    if std::mem::take(&mut view.is_regranted) {
        ack.catalogue.clone_from(&view.catalogue.name);
    }
    for (call_name, call) in attempt.last_calls(name) {
        let index = call_name.index;
        match result_of(call_name, call) {
            Some(result) => {
                if view.results.insert(index) {
                    ack.results.push(result);
                }
            }
            // Hooks are asked about its result, which comes with their answers.
            _ if call.holds_result() => {
                view.results.remove(&index);
            }
            _ if !may_be_sent(call) => {
                // It may be permitted once more.
                view.permitted.retain(|(known, _)| *known != index);
                // Its answer, whatever it is, comes from the owner.
                view.results.remove(&index);
                ack.held_calls.push(call_name.into());
            }
            // An executor that began a pure call when it was asked for knows this already.
            _ => {
                if view.permitted.insert((index, times_intended(call))) {
                    ack.permitted_calls
                        .push(permitted(session, key, call_name, call, not_after));
                }
            }
        }
    }
}

/// No call begins before the owner permits it: the turn returns its calls, the run may make only so many of them, hooks
/// are asked about calls or replies, or plan mode refuses some of pure tools, too. The results of such calls that begin
/// before the mode is set are dropped.
fn waits_for_permits(session: &Session, name: AttemptRef) -> bool {
    let Some(run) = session.run(name.run) else {
        return false;
    };
    let returns_calls = run.turn.is_some() && run.limits.max_tool_turns == 0;
    let counts_calls = run.spent.allowed[Budget::Calls].is_some();
    let asks_hooks = run.hooks.listens(Point::PreToolCall) || run.hooks.listens(Point::PostRequest);
    returns_calls || counts_calls || asks_hooks || session.mode == Mode::Plan
}

/// None also while hooks are asked about the result.
fn result_of(name: CallRef, call: &Call) -> Option<CallResult> {
    if !call.is_finished() {
        return None;
    }
    match &call.status {
        CallStatus::Finished {
            output,
            is_error,
            reason,
        } => Some(CallResult {
            call: Some(name.into()),
            output: output.clone(),
            is_error: *is_error,
            reason: reason.clone(),
            media: call.media.iter().map(shown).collect(),
            ..CallResult::default()
        }),
        _ => None,
    }
}

fn shown(media: &Media) -> wire::CallMedia {
    wire::CallMedia {
        mime_type: media.mime.clone(),
        data: media.data.clone(),
        is_shown: true,
        ..wire::CallMedia::default()
    }
}

/// An effectful call needs its intent; one in doubt needs a person's decision; a write needs its preview; hooks that are
/// asked about the call need to have answered.
fn may_be_sent(call: &Call) -> bool {
    let is_sendable = matches!(
        (&call.status, call.effect),
        (CallStatus::Requested, Effect::Pure | Effect::Idempotent)
            | (CallStatus::Intended { .. }, _)
    );
    is_sendable && !call.is_unready()
}

/// Grows each time that the call may be sent once more.
fn times_intended(call: &Call) -> (u32, u32) {
    match call.status {
        CallStatus::Intended { times, .. } => (call.renewals, times),
        _ => (call.renewals, 0),
    }
}

fn permitted(
    session: &Session,
    key: &SessionKey,
    name: CallRef,
    call: &Call,
    not_after: i64,
) -> PermittedCall {
    let not_after = match (&call.status, call.effect) {
        (_, Effect::Pure) => 0,
        // As durable as the intent itself: what a person is told holds.
        (CallStatus::Intended { not_after, .. }, _) => i64::try_from(*not_after).unwrap_or(0),
        _ => not_after,
    };
    PermittedCall {
        call: Some(name.into()),
        tool_call: Some(call.as_sent().into()),
        call_key: session.call_key(key.namespace.as_str(), &key.id, name),
        not_after_unix_ms: not_after,
        effect: wire::Effect::from(call.effect).into(),
        tool_digest: call.tool_digest.clone(),
        resolved: call.resolved.iter().cloned().map(Into::into).collect(),
        input: call.input.clone().map(Into::into),
        before_digest: digest_of(call, |preview| &preview.before_digest),
        after_digest: digest_of(call, |preview| &preview.after_digest),
    }
}

/// A digest of the preview that was judged; empty without one.
fn digest_of(call: &Call, of: impl Fn(&CallPreview) -> &String) -> String {
    call.preview.as_deref().map(of).cloned().unwrap_or_default()
}
